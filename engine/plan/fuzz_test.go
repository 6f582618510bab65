package plan

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzAnnotations: any annotations result in a valid plan or an error. A parsed list that is written
// and parsed again stays the same.
func FuzzAnnotations(f *testing.F) {
	f.Add(in, "a", needs, `["b"]`, in, "b", before, "Job,Widget")
	f.Add(StoredKey(needs), `["a","a"," "]`, in, "a", StoredKey(needs), `["a"]`, in, "b")
	f.Add(layer, "a", above, "[", layer, "b", uses, `["db","nowhere"]`)
	f.Add(weight, "-9223372036854775808", "", "", weight, "9223372036854775808", "", "")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2, key3, value3, key4, value4 string) {
		root := chart("shop", sub(chart("shop/db")), Subchart{Name: "off", Alias: "no"})
		resources := []Resource{
			res("shop", "ConfigMap/one", key1, value1, key2, value2),
			res("shop", "Job/two", key3, value3, key4, value4),
			res("shop/db", "Widget/three", key1, value3, key4, value2),
		}
		checkInput(t, root, resources, rand.New(rand.NewPCG(1, 2)).Shuffle)
		for _, value := range []string{value1, value2, value3, value4} {
			list, err := ParseList(value)
			if err != nil {
				continue
			}
			again, err := ParseList(quoteList(t, list))
			if err != nil || !slices.Equal(again, list) {
				t.Errorf("%q is parsed as %q, then as %q: %v", value, list, again, err)
			}
		}
	})
}

func quoteList(t *testing.T, list []string) string {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
