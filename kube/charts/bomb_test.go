package charts

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
)

// TestArchivesInArchivesAreBounded limits the total size of many small archives that each
// unpack to much more.
func TestArchivesInArchivesAreBounded(t *testing.T) {
	files := []*archive.BufferedFile{{Name: "Chart.yaml", Data: []byte(chartYAML("shop"))}}
	for n := range 4 {
		name := fmt.Sprintf("db%d", n)
		packed, err := pack(write(t, tree{"Chart.yaml": chartYAML(name), "zeros": strings.Repeat("\x00", 1<<20)}), name, false)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, &archive.BufferedFile{Name: "charts/" + name + ".tgz", Data: packed})
	}
	if _, err := newChartFiles(files); err != nil {
		t.Error(err)
	}
	left := int64(3 << 20)
	if _, err := unpack(files, &left); err == nil || !strings.Contains(err.Error(), "unpack to more than 500 MiB") {
		t.Error(err)
	}
}
