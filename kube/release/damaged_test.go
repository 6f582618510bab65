package release

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/plan"
	"lockstep/kube/mask"
)

// stored is a driver with one decoded record.
type stored struct {
	driver.Driver
	rel *rel1.Release
}

func (s stored) Get(string) (release.Releaser, error) { return s.rel, nil }
func (s stored) Query(map[string]string) ([]release.Releaser, error) {
	return []release.Releaser{s.rel}, nil
}
func (s stored) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	if filter(s.rel) {
		return []release.Releaser{s.rel}, nil
	}
	return nil, nil
}

// TestDamagedRecords: reading a record without a required field is an error.
func TestDamagedRecords(t *testing.T) {
	for record, want := range map[string]string{
		`null`:                           "no info",
		`{}`:                             "no info",
		`{"info":{"status":"deployed"}}`: "no chart",
		`{"info":{"status":"deployed"},"chart":{}}`:                                                     "no chart metadata",
		`{"info":{"status":"deployed"},"chart":{"metadata":{"name":"a","dependencies":[null]}}}`:        "an empty dependency",
		`{"info":{"status":"deployed"},"chart":{"metadata":{"name":"a"},"templates":[null]}}`:           "an empty file",
		`{"info":{"status":"deployed"},"chart":{"metadata":{"name":"a"},"files":[null]}}`:               "an empty file",
		`{"info":{"status":"deployed"},"chart":{"metadata":{"name":"a"}},"hooks":[null]}`:               "an empty hook",
		`{"info":{"status":"deployed"},"chart":{"metadata":{"name":"a"}},"name":"shop","version":3}`:    "",
		`{"info":{},"chart":{"metadata":{}},"hooks":[],"config":null,"manifest":"","apply_method":"x"}`: "",
	} {
		rel := &rel1.Release{}
		if err := json.Unmarshal([]byte(record), rel); err != nil {
			t.Fatal(err)
		}
		rel.Labels = map[string]string{"name": "shop", "version": "3"}
		s := storage.Init(Checked(stored{rel: rel}, &mask.Mask{}))
		_, _, got := Get(s, "shop", 3)
		_, _, all := Read(s, "shop")
		_, _, last := Last(s, "shop")
		list, _ := s.ListReleases()
		for _, err := range []error{got, all, last} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "sh.helm.release.v1.shop.v3 is damaged ("+want+");")) {
				t.Errorf("%s: error %v, want %q", record, err, want)
			}
		}
		if len(list) == 1 != (want == "") {
			t.Errorf("%s: ListReleases returned %d releases", record, len(list))
		}
	}
}

// TestRecordsOfManySubchartsAreBounded: a compressed record that fits into a Secret may have
// millions of charts.
func TestRecordsOfManySubchartsAreBounded(t *testing.T) {
	rel := &rel1.Release{Chart: &chart.Chart{}}
	put := func(n int) {
		tree := json.RawMessage(append(append([]byte(`{"Path":"shop","Subcharts":[`), bytes.TrimSuffix(bytes.Repeat([]byte("{},"), n), []byte(","))...), "]}"...))
		if err := writeFile(rel, recordFile, map[string]any{"version": recordVersion, "sequenced": true, "tree": tree}); err != nil {
			t.Fatal(err)
		}
	}
	put(maxRecord / 3)
	if r := ReadRecord(rel); r != nil {
		t.Errorf("read %d subcharts of a record that is too large", len(r.Tree.Subcharts))
	}
	put(20_000)
	if _, err := plan.Build(TreeOf(rel), nil); err != nil {
		t.Error(err)
	}
	rel.Chart.Files = []*common.File{{Name: recordFile, Data: []byte("\x1f\x8b")}}
	if r := ReadRecord(rel); r != nil {
		t.Errorf("read a truncated record: %+v", r)
	}
}
