package helmfile

import (
	"fmt"
	"path/filepath"

	"lockstep/kube/documents"
)

// syntaxError explains an error of the YAML parser, with its position.
func syntaxError(path string, data []byte, err error) error {
	if path != "-" && !isTemplateFile(path) {
		if line := documents.TemplateLine(data, err); line > 0 {
			return position{path, line}.errorf("template syntax ({{ … }}) in a plain YAML file; quote it, or rename the file to %s.gotmpl", filepath.Base(path))
		}
	}
	line, message := documents.SyntaxError(data, err)
	if line == 0 {
		return fmt.Errorf("%s: invalid YAML: %s", path, message)
	}
	return position{path, line}.errorf("invalid YAML: %s", message)
}
