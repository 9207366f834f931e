#compdef verge
# Completion of verge for zsh: source <(verge completion zsh)
_verge() {
	local -a found
	local line
	for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] && found+=("${line%%$'\t'*}:${line#*$'\t'}")
	done
	if (( $#found )); then
		_describe 'verge' found
	else
		_files
	fi
}
if [[ $funcstack[1] == _verge ]]; then
	_verge "$@"
else
	compdef _verge verge
fi
