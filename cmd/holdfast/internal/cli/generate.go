package cli

import (
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/completion"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/manual"
)

type completionCommand struct { //nolint:recvcheck // kong asks the value for its help and the pointer to run
	Shell string `arg:"" enum:"${shells}" help:"The shell: ${shells}."`
}

// Help is shown by kong below the usage.
func (completionCommand) Help() string {
	return `For the shell that reads it:
  source <(holdfast completion bash)
  source <(holdfast completion zsh)
  holdfast completion fish | source

For every shell from now on:
  holdfast completion bash >~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh >"${fpath[1]}/_holdfast"
  holdfast completion fish >~/.config/fish/completions/holdfast.fish`
}

// Run is called by kong.
func (c *completionCommand) Run(s streams) error {
	parser, err := newParser(new(grammar), s)
	if err != nil {
		return err
	}
	return completion.Write(s.stdout, c.Shell, parser.Model)
}

type manCommand struct{} //nolint:recvcheck // kong asks the value for its help and the pointer to run

// Help is shown by kong below the usage.
func (manCommand) Help() string {
	return `To read it, and to have it where man looks:
  holdfast man | man -l -
  holdfast man >/usr/local/share/man/man1/holdfast.1`
}

// Run is called by kong.
func (*manCommand) Run(s streams) error {
	parser, err := newParser(new(grammar), s)
	if err != nil {
		return err
	}
	page := manual.Page{
		Version: number(), About: about, Usages: usages,
		Variables: map[string]string{
			passwordVariable:         "The password, if --password-file is not given.",
			sentinelPasswordVariable: "The password for the sentinels, if --sentinel-password-file is not given.",
		},
	}
	return page.Write(s.stdout, parser.Model)
}
