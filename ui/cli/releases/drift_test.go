package releases

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/inspect"
	"lockstep/ui/cli/command"
)

// TestRepairsGoToTheComparedReleases (S18): the client of a repair uses the namespace and the context of the comparison, so that a
// release of the same name elsewhere is left alone.
func TestRepairsGoToTheComparedReleases(t *testing.T) {
	const config = `{"apiVersion": "v1", "kind": "Config", "current-context": "one",
"clusters": [{"name": "a", "cluster": {"server": "https://a"}}, {"name": "b", "cluster": {"server": "https://b"}}],
"contexts": [{"name": "one", "context": {"cluster": "a", "namespace": "first"}}, {"name": "two", "context": {"cluster": "b", "namespace": "second"}}]}`
	settings := helmcli.New()
	settings.KubeConfig = filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(settings.KubeConfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	a := &app{&command.App{Settings: settings}, Repair{Run: func(_ *cobra.Command, s *helmcli.EnvSettings, release string, _ command.Repairs) error {
		loader := s.RESTClientGetter().ToRawKubeConfigLoader()
		namespace, _, err := loader.Namespace()
		if err != nil {
			return err
		}
		client, err := loader.ClientConfig()
		if err != nil {
			return err
		}
		got = append(got, fmt.Sprintf("%s %s/%s", client.Host, namespace, release))
		return nil
	}}}
	for _, r := range []inspect.Drift{{Release: "zz", Namespace: "x"}, {Release: "zz", Namespace: "y", Context: "two"}, {Release: "zz", Namespace: "first"}} {
		if err := a.repairDrift(&cobra.Command{}, r, command.Repairs{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"https://a x/zz", "https://b y/zz", "https://a first/zz"}; !slices.Equal(got, want) {
		t.Errorf("repairs of %q, want %q", got, want)
	}
	if settings.Namespace() != "first" {
		t.Errorf("the namespace of the command is %s now", settings.Namespace())
	}
}
