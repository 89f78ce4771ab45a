-- adamw_storage: AdamW with parameters, gradients and moments in the layer's storage type.
-- Reference: torch.optim.AdamW (amsgrad off) over a model in bf16.
return require "layers.lib.adamw_storage" ("adamw_storage", false)
