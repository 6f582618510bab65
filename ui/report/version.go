package report

import "fmt"

// Version are the versions of the program and of what it is made of.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // "" where the build knew of none
	Modified bool   `json:"modified,omitempty"` // what was built was not just the commit
	Helm     string `json:"helm"`
	Client   string `json:"kubernetesClient"`
	Go       string `json:"go"`
}

func (m machine) Version(v Version) error { return encodeLine(m.out, v) }

func (h human) Version(v Version) error {
	return write(h.text, fmt.Sprintf("lockstep %s (%sHelm %s, Kubernetes client %s, %s)\n", v.Version, v.commit(), v.Helm, v.Client, v.Go))
}

// commit is what the text says of the commit.
func (v Version) commit() string {
	switch {
	case v.Commit == "":
		return ""
	case v.Modified:
		return "commit " + v.Commit + " with changes, "
	}
	return "commit " + v.Commit + ", "
}
