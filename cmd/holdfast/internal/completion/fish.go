package completion

// fish completes in fish 3.0 and later.
const fish = `# fish completion for {{.Name}}, as "{{.Name}} completion fish" prints it.
{{define "flag"}}{{if .Short}} -s {{.Short}}{{end}} -l {{.Name}}
{{- if .File}} -r -F{{else if .Values}} -x -a {{quote (words .Values)}}{{else if .Value}} -x{{end}} -d {{quote .About}}{{end}}
# The command that has been named, unless another one follows that it is to run.
function __{{.Name}}_named
	set -l words (commandline -opc)
	contains -- -- $words; and return 1
	for word in $words[2..-1]
		contains -- $word {{words .Names}}; and echo $word; and return
	end
	return 1
end

function __{{.Name}}_in
	contains -- $argv[1] (__{{.Name}}_named)
end

function __{{.Name}}_without_command
	not __{{.Name}}_behind_dashes; and not __{{.Name}}_named >/dev/null
end

# The command to run is completed as it would be alone.
function __{{.Name}}_behind_dashes
	contains -- -- (commandline -opc)
end

function __{{.Name}}_complete_behind_dashes
	set -l words (commandline -opc)
	set -l at (contains -i -- -- $words)
	set -l line
	test $at -lt (count $words); and set line (string escape -- $words[(math $at + 1)..-1])
	complete -C (string join ' ' -- $line (commandline -ct))
end

complete -c {{.Name}} -f
{{range .Flags}}
complete -c {{$.Name}} -n 'not __{{$.Name}}_behind_dashes'{{template "flag" .}}
{{- end}}
{{range $c := .Commands}}
complete -c {{$.Name}} -n __{{$.Name}}_without_command -a {{.Name}} -d {{quote .About}}
{{- range .Flags}}
complete -c {{$.Name}} -n '__{{$.Name}}_in {{$c.Name}}'{{template "flag" .}}
{{- end}}
{{- range .Arguments}}{{if .Values}}
complete -c {{$.Name}} -n '__{{$.Name}}_in {{$c.Name}}' -a {{quote (words .Values)}}
{{- end}}{{end}}
{{- if .Runs}}
complete -c {{$.Name}} -n __{{$.Name}}_behind_dashes -a '(__{{$.Name}}_complete_behind_dashes)'
{{- end}}
{{end}}`
