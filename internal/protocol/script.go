package protocol

import (
	"embed"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

//go:embed lua/*.lua
var files embed.FS

// load returns the script of a kind's operation, with the libraries that it
// needs. Its name is the operation's.
func load(kind, operation string, libraries ...string) *driver.Script {
	var text strings.Builder
	text.WriteString(source("common"))
	for _, library := range libraries {
		text.WriteString(source(library))
	}
	text.WriteString(source(kind + "_" + operation))
	return driver.NewScript(operation, text.String())
}

func source(name string) string {
	text, err := files.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded, or the package does not work at all
	}
	return string(text)
}
