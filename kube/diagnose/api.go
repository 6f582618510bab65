package diagnose

import (
	"context"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apiServices is where APIs that somebody serves beside the API server's own are
// registered.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiService says why an API is not available: its condition, then the Service
// that is to serve it.
func (d *Diagnoser) apiService(ctx context.Context, u *unstructured.Unstructured) lead {
	l := lead{cause: "nobody has looked yet whether it answers", symptom: true}
	for _, c := range conditionsOf(u) {
		switch {
		case c.kind != "Available":
		case c.status == "True":
			return lead{}
		default:
			l = lead{cause: c.String(), evidence: []string{c.String()}}
		}
	}
	service, _, _ := unstructured.NestedStringMap(u.Object, "spec", "service")
	if service == nil {
		service = map[string]string{}
		for _, key := range []string{"namespace", "name"} {
			service[key], _, _ = unstructured.NestedString(u.Object, "spec", "service", key)
		}
	}
	if service["name"] == "" {
		return l
	}
	more := d.behindService(ctx, service["namespace"], service["name"], l.cause)
	l.cause, l.evidence = more.cause, append(l.evidence, more.evidence...)
	return l
}

// metricsGroup is the API of metrics that an autoscaler could not ask.
var metricsGroup = regexp.MustCompile(`(?:custom\.|external\.)?metrics\.k8s\.io`)

// autoscaler says why an autoscaler does not scale, and where it gets no metrics,
// what became of their API.
func (d *Diagnoser) autoscaler(ctx context.Context, q *inquiry) lead {
	l := q.custom()
	c := fault(q.live, "")
	if c == nil {
		return l
	}
	group := metricsGroup.FindString(c.message)
	if group == "" {
		return l
	}
	if served := d.servedBy(ctx, group, &l); !served {
		l.cause += fmt.Sprintf("; no metrics server is installed: nothing in the cluster serves %s", group)
	}
	return l
}

// servedBy adds to a lead why the APIServices of a group do not answer, as far as they
// say. It reports whether there may be any.
func (d *Diagnoser) servedBy(ctx context.Context, group string, l *lead) (served bool) {
	apis, err := d.dyn.Resource(apiServices).List(ctx, metav1.ListOptions{})
	if err != nil {
		l.gaps = append(l.gaps, gapText("APIServices", err))
		return true
	}
	for i := range apis.Items {
		api := &apis.Items[i]
		if of, _, _ := unstructured.NestedString(api.Object, "spec", "group"); of != group {
			continue
		}
		served = true
		if down := d.apiService(ctx, api); down.cause != "" {
			l.cause += fmt.Sprintf("; APIService %s: %s", api.GetName(), down.cause)
			l.evidence = append(l.evidence, down.evidence...)
		}
	}
	return served
}
