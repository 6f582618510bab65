package helmfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"lockstep/kube/documents"
)

// syntaxError explains an error of the YAML parser, with its position.
func syntaxError(path string, data []byte, err error) error {
	line, message := documents.SyntaxError(err)
	if found := templateLine(path, data, line, message); found > 0 {
		return position{path, found}.errorf("template syntax ({{ … }}) in a plain YAML file; quote it, or rename the file to %s.gotmpl", filepath.Base(path))
	}
	if line == 0 {
		return fmt.Errorf("%s: invalid YAML: %s", path, message)
	}
	if last := bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n")) + 1; line > last {
		line, message = last, "the file ends too early; a bracket or quote is not closed"
	}
	if strings.HasPrefix(message, "indented with a tab") { // the parser names an earlier line
		for i, text := range bytes.Split(data, []byte("\n")) {
			if i+1 >= line && bytes.HasPrefix(bytes.TrimLeft(text, " "), []byte("\t")) {
				line = i + 1
				break
			}
		}
	}
	return position{path, line}.errorf("invalid YAML: %s", message)
}

// template matches a line whose value is an unquoted template.
var template = regexp.MustCompile(`^\s*(- +)?([\w.-]+: +)?\{\{`)

// templateLine returns the line of the template that makes a file invalid YAML, or 0. near is the line that the parser
// names, or 0; it may be off by one.
func templateLine(path string, data []byte, near int, message string) int {
	if path == "-" || strings.HasSuffix(path, ".gotmpl") || near == 0 && !strings.HasPrefix(message, "invalid map key") {
		return 0
	}
	for i, text := range bytes.Split(data, []byte("\n")) {
		if n := i + 1; template.Match(text) && (near == 0 || n >= near-1 && n <= near+1) {
			return n
		}
	}
	return 0
}
