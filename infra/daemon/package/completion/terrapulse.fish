# fish asks the program itself, which reads the line from this variable.
function __terrapulse_complete
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    /usr/bin/terrapulse 2>/dev/null
end
complete -f -c terrapulse -a "(__terrapulse_complete)"
