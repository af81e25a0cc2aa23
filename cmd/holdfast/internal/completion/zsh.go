package completion

// zsh is a function for a directory of $fpath, by the name of _holdfast.
const zsh = `#compdef {{.Name}}
# zsh completion for {{.Name}}, as "{{.Name}} completion zsh" prints it.
{{define "flag"}}
{{- $value := ""}}{{if .Value}}{{$value = "="}}{{end}}
{{- $action := " "}}{{if .File}}{{$action = "_files"}}{{else if .Values}}{{$action = print "(" (words .Values) ")"}}{{end}}
{{- if .Short}}'(-{{.Short}} --{{.Name}})-{{.Short}}{{if .Value}}+{{end}}[{{inSpec .About}}]{{if .Value}}:{{inSpec .Value}}:{{$action}}{{end}}'
		'(-{{.Short}} --{{.Name}})--{{.Name}}{{$value}}[{{inSpec .About}}]{{if .Value}}:{{inSpec .Value}}:{{$action}}{{end}}'
{{- else}}'--{{.Name}}{{$value}}[{{inSpec .About}}]{{if .Value}}:{{inSpec .Value}}:{{$action}}{{end}}'{{end}}
{{- end}}
_{{.Name}}() {
	local curcontext="$curcontext" context state state_descr line
	local -A opt_args
	local -a common specific commands
	common=(
{{- range .Flags}}
		{{template "flag" .}}
{{- end}}
	)
	commands=(
{{- range .Commands}}
		'{{.Name}}:{{inSpec .About}}'
{{- end}}
	)
	_arguments -C $common '1: :->command' '*:: :->arguments'
	case $state in
	command)
		_describe -t commands command commands
		;;
	arguments)
		case $words[1] in
{{- range $c := .Commands}}
		{{.Name}})
{{- if .Runs}}
			local at=$words[(i)--]
			if ((at < CURRENT)); then # the command to run is completed as it would be alone
				shift $at words
				((CURRENT -= at))
				_normal
				return
			fi
{{- end}}
			specific=(
{{- range .Flags}}
				{{template "flag" .}}
{{- end}}
			)
			_arguments -S $common $specific{{range .Arguments}} ':{{.Name}}:{{if .Values}}({{words .Values}}){{else}} {{end}}'{{end}}
			;;
{{- end}}
		esac
		;;
	esac
}

if [[ $funcstack[1] == _{{.Name}} ]]; then
	_{{.Name}} "$@"
else
	compdef _{{.Name}} {{.Name}}
fi
`
