package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/session"
)

// apiServices is the resource that registers aggregated APIs.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// WaitForAPIs waits until the aggregated APIs of the objects in a list are available, at most for the
// readiness timeout. It does not wait if that is pointless (see outage), or for a plan. waited are the APIs
// that were unavailable at first: their kinds may have been unknown. deferred are unavailable APIs whose
// APIService is in the list; it does not wait for these.
func WaitForAPIs(s *session.Session, list helmkube.ResourceList) (waited, deferred []schema.GroupVersion, err error) {
	timeout := s.Common.ReadinessTimeout
	ctx, cancel := context.WithTimeoutCause(s.Context, timeout, fmt.Errorf("waited %s (--readiness-timeout)", timeout))
	defer cancel()
	for _, gv := range aggregated(list) {
		found := outageOf(s, ctx, gv)
		switch {
		case found.why == "":
		case provides(list, gv):
			deferred = append(deferred, gv)
		case s.Common.PlanOnly, found.lasts(timeout):
			return nil, nil, refuseAPI(gv, found.why)
		default:
			if err := waitForAPI(s, ctx, gv, found.why); err != nil {
				return nil, nil, err
			}
			waited = append(waited, gv)
		}
	}
	return waited, deferred, nil
}

// waitForAPI waits until an API is available. why says why it is not.
func waitForAPI(s *session.Session, ctx context.Context, gv schema.GroupVersion, why string) error {
	for reported := ""; why != ""; {
		if why != reported {
			reported = why
			s.Common.ReportStep(why + "; waiting")
		}
		select {
		case <-ctx.Done():
			return refuseAPI(gv, fmt.Sprintf("%s; %v", why, context.Cause(ctx)))
		case <-time.After(time.Second):
			if next := outageOf(s, ctx, gv); ctx.Err() == nil { // after the timeout it is unknown
				why = next.why
			}
		}
	}
	return nil
}

// refuseAPI returns the error about an API that is not available.
func refuseAPI(gv schema.GroupVersion, why string) error {
	o := apiServiceOf(gv)
	message := why + "; check the Service that serves this API, or delete the APIService if nothing uses it"
	return &Refusal{Conflicts: []plan.Warning{{Object: &o, Message: message}}}
}

func apiServiceOf(gv schema.GroupVersion) plan.Object {
	return plan.Object{Group: apiServices.Group, Kind: "APIService", Name: gv.Version + "." + gv.Group}
}

// outage says why an API is not available. The zero value means that it is, or that its state is unknown.
type outage struct {
	why       string
	since     time.Time // zero if unknown
	noService bool      // the Service that serves it does not exist
}

// lasts reports whether an outage will not end by itself within a timeout: the Service does not exist, or the API has been
// down for longer than that.
func (o outage) lasts(timeout time.Duration) bool {
	return o.noService || !o.since.IsZero() && time.Since(o.since) > timeout
}

// outageOf returns the outage of an API, according to its APIService.
func outageOf(s *session.Session, ctx context.Context, gv schema.GroupVersion) outage {
	o := apiServiceOf(gv)
	u, err := s.Client.Dynamic.Resource(apiServices).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return outage{}
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] == "Available" && c["status"] == string(metav1.ConditionFalse) {
			text, _ := c["lastTransitionTime"].(string)
			since, _ := time.Parse(time.RFC3339, text)
			return outage{fmt.Sprintf("%s is not available: %v: %v", o, c["reason"], c["message"]), since, c["reason"] == "ServiceNotFound"}
		}
	}
	return outage{}
}

// aggregated returns the APIs of the objects in a list that may be aggregated APIs.
func aggregated(list helmkube.ResourceList) (all []schema.GroupVersion) {
	for _, i := range list {
		if gv := i.Mapping.GroupVersionKind.GroupVersion(); connect.Aggregated(gv.Group) && !slices.Contains(all, gv) {
			all = append(all, gv)
		}
	}
	return all
}

// provides reports whether a list contains the APIService of an API.
func provides(list helmkube.ResourceList, gv schema.GroupVersion) bool {
	return slices.ContainsFunc(list, func(i *resource.Info) bool {
		return i.Mapping.GroupVersionKind.Kind == "APIService" && i.Name == apiServiceOf(gv).Name
	})
}
