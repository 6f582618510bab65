package charts

import (
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// FromHelm returns the chart that a chart of Helm's was made of, whether Helm's
// loader or this package has loaded it, also after an action has renamed its
// subcharts. Of subcharts that an action has dropped it may know nothing. A
// chart that was never in files gives an error.
func FromHelm(h *chart.Chart) (*Chart, error) { return fromFiles(h.Name(), rawFiles(h)) }

// rawFiles are the files of a chart and of those below it. Helm's loader keeps
// them all with the chart at the top, this package each with its own.
func rawFiles(h *chart.Chart) []*archive.BufferedFile {
	var files []*archive.BufferedFile
	whole := false
	for _, f := range h.Raw {
		files = append(files, &archive.BufferedFile{Name: f.Name, ModTime: f.ModTime, Data: f.Data})
		whole = whole || strings.HasPrefix(f.Name, "charts/")
	}
	if whole {
		return files
	}
	for _, d := range h.Dependencies() {
		for _, f := range rawFiles(d) {
			f.Name = "charts/" + d.Name() + "/" + f.Name
			files = append(files, f)
		}
	}
	return files
}
