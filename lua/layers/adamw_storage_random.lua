-- adamw_storage_random: adamw_storage whose new parameter is rounded up or down at random; the
-- random number follows from seed and place alone.
return require "layers.lib.adamw_storage" ("adamw_storage_random", true)
