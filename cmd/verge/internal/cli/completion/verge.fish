# Completion of verge for fish: verge completion fish > ~/.config/fish/completions/verge.fish
function __verge_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l last (commandline -ct)
    set -l found ($program complete -- $words "$last" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$last"
    end
end
complete -c verge -f -a '(__verge_complete)'
