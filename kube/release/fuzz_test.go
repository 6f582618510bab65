package release

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"reflect"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
)

// FuzzRecord: any record is either ignored or used for a plan, and is unchanged after it is stored and
// read again.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{"version":1,"sequenced":true,"tree":{"Path":"shop","DependsOn":["db"],"Subcharts":[{"Name":"db","Chart":{"Path":"shop/db"}}]}}`,
		`{"version":1,"sequenced":true,"tree":null}`,
		`{"version":1,"sequenced":true,"tree":{"Path":"","Subcharts":[null,{},{"Chart":{}},{"Chart":{"Path":""}}]}}`,
		`{"version":1,"sequenced":true,"tree":{"Path":"a","Subcharts":[{"Name":"x","DependsOn":["y"],"Chart":{"Path":"a"}},{"Name":"y","DependsOn":["x"],"Chart":{"Path":"a/y"}}]}}`,
		`{"version":1,"tree":[]}`, `{"version":2}`, `[[[[`, `null`, `{"revision":3,"groups":null}`,
	} {
		f.Add([]byte(s), true)
	}
	f.Add([]byte("\x1f\x8b\x08\x00not gzip"), false)
	resources := []plan.Resource{
		{Chart: "shop", Object: plan.Object{Kind: "Job", Name: "a"}, Annotations: map[string]string{plan.AnnotationGroup: "a"}},
		{Chart: "shop/db", Object: plan.Object{Kind: "Job", Name: "b"}, Annotations: map[string]string{plan.AnnotationLayerChart: "x"}},
	}
	f.Fuzz(func(t *testing.T, data []byte, packed bool) {
		if packed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(data)
			_ = z.Close()
			data = b.Bytes()
		}
		rel := &rel1.Release{Version: 3, Chart: &chart.Chart{Files: []*common.File{nil, {Name: recordFile, Data: data}, {Name: courseFile, Data: data}}}}
		CourseOf(rel)
		r := ReadRecord(rel)
		if r == nil {
			return
		}
		if tree := TreeOf(rel); tree != nil {
			if p, err := plan.Build(tree, resources); err == nil {
				plan.Reduce(p.Groups)
			}
		}
		if err := r.write(rel); err != nil {
			t.Fatal(err)
		}
		if again := ReadRecord(rel); !reflect.DeepEqual(again, r) {
			text, _ := json.Marshal(r)
			t.Errorf("%s became %+v", text, again)
		}
	})
}
