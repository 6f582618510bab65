package report

import "fmt"

// Version are the versions of the program and of what it is made of.
type Version struct {
	Version string `json:"version"`
	Helm    string `json:"helm"`
	Client  string `json:"kubernetesClient"`
	Go      string `json:"go"`
}

func (m machine) Version(v Version) error { return encodeLine(m.out, v) }

func (h human) Version(v Version) error {
	return write(h.text, fmt.Sprintf("lockstep %s (Helm %s, Kubernetes client %s, %s)\n", v.Version, v.Helm, v.Client, v.Go))
}
