# bash asks the program itself.
complete -o nospace -C /usr/bin/terrapulse terrapulse
