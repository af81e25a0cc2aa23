package completion

// bash completes in bash 3.2 (of macOS) and later. Words that bash cuts at a ":" or a "=" are put
// together first: the value of --redis has some.
const bash = `# bash completion for {{.Name}}, as "{{.Name}} completion bash" prints it.

_{{.Name}}() {
	local words=() glue= word cur command= flag= place=0 i IFS=$' \t\n'
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ -n $glue || ($i -gt 0 && $word =~ ^[:=]+$) ]]; then
			words[${#words[@]}-1]+=$word
		else
			words+=("$word")
		fi
		glue=
		[[ $word =~ ^[:=]+$ ]] && glue=1
	done
	COMPREPLY=()
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		word=${words[i]}
		if [[ -n $flag ]]; then
			flag= # this is its value
			continue
		fi
		case "$command $word" in
{{- range .Commands}}{{if .Runs}}
		"{{.Name}} --")
			_{{$.Name}}_command
			return
			;;
{{- end}}{{end}}
{{- range .Flags}}{{if .Value}}{{range .Words}}
		*" {{.}}") flag=$word ;;
{{- end}}{{end}}{{end}}
{{- range $c := .Commands}}{{range .Flags}}{{if .Value}}{{range .Words}}
		"{{$c.Name}} {{.}}") flag=$word ;;
{{- end}}{{end}}{{end}}{{end}}
		*" -"*) ;;
		" "*) command=$word ;;
		*) place=$((place + 1)) ;;
		esac
	done
	cur=${words[${#words[@]}-1]}
	if [[ -z $flag && $cur == --*=* ]]; then
		flag=${cur%%=*}
	fi
	if [[ -n $flag ]]; then
		cur=${cur#"$flag="}
		case "$command $flag" in
{{- range .Flags}}{{if .File}}{{range .Words}}
		*" {{.}}") _{{$.Name}}_files ;;
{{- end}}{{end}}{{end}}
{{- range $c := .Commands}}{{range $f := .Flags}}{{range .Words}}
{{- if $f.File}}
		"{{$c.Name}} {{.}}") _{{$.Name}}_files ;;
{{- else if $f.Values}}
		"{{$c.Name}} {{.}}") COMPREPLY=($(compgen -W {{quote (words $f.Values)}} -- "$cur")) ;;
{{- end}}{{end}}{{end}}{{end}}
		esac
		return
	fi
	if [[ $cur == -* ]]; then
		case $command in
{{- range .Commands}}
		{{.Name}}) COMPREPLY=($(compgen -W {{quote (words .Words)}} -- "$cur")) ;;
{{- end}}
		esac
		COMPREPLY+=($(compgen -W {{quote (words .Words)}} -- "$cur"))
		return
	fi
	case "$command $place" in
	" "*) COMPREPLY=($(compgen -W {{quote (words .Names)}} -- "$cur")) ;;
{{- range $c := .Commands}}{{range $i, $a := .Arguments}}{{if $a.Values}}
	"{{$c.Name}} {{$i}}") COMPREPLY=($(compgen -W {{quote (words $a.Values)}} -- "$cur")) ;;
{{- end}}{{end}}{{end}}
	esac
}

_{{.Name}}_files() {
	local IFS=$'\n'
	compopt -o filenames 2>/dev/null
	COMPREPLY=($(compgen -f -- "$cur"))
}

# What stands behind the first -- is completed as it would be alone.
_{{.Name}}_command() {
	local at IFS=$'\n'
	for ((at = 1; at < COMP_CWORD; at++)); do
		[[ ${COMP_WORDS[at]} == -- ]] && break
	done
	at=$((at + 1))
	if declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset $at
	elif declare -F _command_offset >/dev/null; then
		_command_offset $at
	elif ((at == COMP_CWORD)); then
		COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
	else
		cur=${COMP_WORDS[COMP_CWORD]}
		_{{.Name}}_files
	fi
}

complete -F _{{.Name}} {{.Name}}
`
