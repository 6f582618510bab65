package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
)

// DryRun returns a copy of an Info whose requests change nothing: GETs are answered with live, nil for an object that does
// not exist, and writes are sent as dry runs.
func DryRun(i *resource.Info, live *unstructured.Unstructured) *resource.Info {
	out := *i
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		out.Object = u.DeepCopy()
	}
	out.Client = dryRunClient{&prefetchedClient{RESTClient: i.Client, mapping: i.Mapping, name: i.Name, whole: live}}
	return &out
}

// dryRunClient is the client of DryRun.
type dryRunClient struct{ *prefetchedClient }

func dryRun(r *rest.Request) *rest.Request { return r.Param("dryRun", "All") }

func (c dryRunClient) Post() *rest.Request { return dryRun(c.prefetchedClient.Post()) }

func (c dryRunClient) Put() *rest.Request { return dryRun(c.prefetchedClient.Put()) }

func (c dryRunClient) Patch(t types.PatchType) *rest.Request {
	return dryRun(c.prefetchedClient.Patch(t))
}

func (c dryRunClient) Delete() *rest.Request { return dryRun(c.prefetchedClient.Delete()) }
