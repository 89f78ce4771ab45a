-- expect: 2: require 'socket': wanted 'gradsmith', 'layers.NAME' or a path 'NAME.lua'
return require "socket"
