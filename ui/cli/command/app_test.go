package command

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	helmcli "helm.sh/helm/v4/pkg/cli"
)

// TestContextSettings: a connection to another context uses that context's namespace, as Helm's
// --kube-context does, and keeps the limits of the client.
func TestContextSettings(t *testing.T) { // S8
	const text = `{"apiVersion": "v1", "kind": "Config", "current-context": "one", "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
"contexts": [{"name": "one", "context": {"cluster": "c", "namespace": "first"}}, {"name": "two", "context": {"cluster": "c", "namespace": "second"}}]}`
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := helmcli.New()
	s.KubeConfig, s.BurstLimit, s.KubeToken = path, 7, "of the current context"
	got := ContextSettings(s, path, "two")
	if s.Namespace() != "first" || got.Namespace() != "second" || got.BurstLimit != 7 || got.KubeToken != "" {
		t.Errorf("namespaces %s and %s, %+v", s.Namespace(), got.Namespace(), got)
	}
}

// TestSettingsInNamespace: the client of the returned settings uses the other namespace; everything else is as before.
func TestSettingsInNamespace(t *testing.T) { // S18
	s := helmcli.New()
	s.SetNamespace("here")
	for _, v := range exportedFields(s) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("set")
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"set"}))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int:
			v.SetInt(7)
		default:
			v.SetFloat(7)
		}
	}
	got := InNamespace(s, "there")
	for name, v := range exportedFields(got) {
		if want := exportedFields(s)[name]; !reflect.DeepEqual(v.Interface(), want.Interface()) {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	for settings, want := range map[*helmcli.EnvSettings]string{s: "here", got: "there"} {
		settings.KubeConfig, settings.KubeContext, settings.KubeCaFile = "", "", ""
		if ns, _, err := settings.RESTClientGetter().ToRawKubeConfigLoader().Namespace(); ns != want || err != nil {
			t.Errorf("the namespace of the client is %s, want %s (%v)", ns, want, err)
		}
	}
}

// exportedFields returns the exported fields of settings by name.
func exportedFields(s *helmcli.EnvSettings) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	for f, v := range reflect.ValueOf(s).Elem().Fields() {
		if f.IsExported() {
			all[f.Name] = v
		}
	}
	return all
}
