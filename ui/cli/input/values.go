package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"lockstep/kube/charts"
)

// ValuesHeader is the header of the file in which a user edits the values of a running release.
func ValuesHeader(release string) string {
	return "# Values given for release " + release + ".\n# Saved changes become the next revision after you confirm.\n"
}

// ValuesFile returns the text of a file in which a user edits values.
func ValuesFile(header string, values map[string]any) (text string, err error) {
	text = "\n" // without values, an empty line below the comments
	if len(values) > 0 {
		text, err = charts.YAML(values)
	}
	return header + text, err
}

// SaveValues writes edited values of a release to a new file in the current directory, which
// only the user can read. It adds a number to the name if the file exists.
func SaveValues(release, text string) (path string, err error) {
	name := "values-" + release
	path = name + ".yaml"
	for n := 2; ; n++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			path = fmt.Sprintf("%s-%d.yaml", name, n)
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path) // incomplete
			return "", err
		}
		return path, nil
	}
}
