package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
)

// Messages of the API server about webhooks that refuse an object, do not answer, or cannot convert between versions.
var (
	hookRefuses  = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: | without explanation)?(.*)`)
	hookFails    = regexp.MustCompile(`failed calling webhook "([^"]+)": (?:failed to call webhook: )?(?:Post "([^"]*)": )?(.*)`)
	convertFails = regexp.MustCompile(`conversion webhook for (\S+), Kind=(\S+) failed: (?:Post "([^"]*)": )?(.*)`)
	hookService  = regexp.MustCompile(`^https://([^./]+)\.([^./]+)\.svc(?:[:/]|$)`)
)

// webhook finds the configuration of a webhook that refused an object and, if the webhook
// does not answer, checks its Service.
func (d *Diagnoser) webhook(ctx context.Context, words string) lead {
	if m := hookRefuses.FindStringSubmatch(words); m != nil {
		config, gap := d.hookConfig(ctx, m[1])
		why := cmp.Or(strings.TrimSpace(m[2]), "no reason given")
		return lead{cause: fmt.Sprintf("refused by %s: %s", hookName(m[1], config), why), evidence: gap}
	}
	if m := hookFails.FindStringSubmatch(words); m != nil {
		config, gap := d.hookConfig(ctx, m[1])
		l := d.withServiceAt(ctx, m[2], fmt.Sprintf("%s does not answer: %s", hookName(m[1], config), certificateHint(m[3])))
		l.evidence = append(l.evidence, gap...)
		return l
	}
	if m := convertFails.FindStringSubmatch(words); m != nil {
		return d.withServiceAt(ctx, m[3], fmt.Sprintf("the webhook that converts %s to %s does not answer: %s", m[2], m[1], certificateHint(m[4])))
	}
	return lead{}
}

// hookName names a webhook, with its configuration if that is known.
func hookName(name, config string) string {
	if config == "" {
		return "webhook " + name
	}
	return fmt.Sprintf("webhook %s of %s", name, config)
}

// certificateHint explains an untrusted certificate, the most common fault of a new webhook.
func certificateHint(why string) string {
	if strings.Contains(why, "signed by unknown authority") {
		return why + "; its caBundle does not match its certificate"
	}
	return why
}

// withServiceAt adds the cause of the Service at an address, or else the address.
func (d *Diagnoser) withServiceAt(ctx context.Context, address, cause string) lead {
	m := hookService.FindStringSubmatch(address)
	if m == nil {
		if address != "" {
			cause += " (" + address + ")"
		}
		return lead{cause: cause}
	}
	return d.withServiceCause(ctx, m[2], m[1], cause)
}

// withServiceCause appends to a cause why a Service has no ready pods. If it has some, the cause is unchanged.
func (d *Diagnoser) withServiceCause(ctx context.Context, namespace, name, cause string) lead {
	l := lead{cause: cause}
	r := d.Object(ctx, plan.Object{Kind: "Service", Namespace: namespace, Name: name})
	if r.serves {
		return l
	}
	l.cause += fmt.Sprintf("; Service %s/%s: %s", namespace, name, r.Cause)
	l.evidence = r.Evidence
	return l
}

// hookConfig names the configuration of a webhook, or "" if it is unknown; gap is a failed read.
func (d *Diagnoser) hookConfig(ctx context.Context, name string) (config string, gap []string) {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		list, err := d.dyn.Resource(admissionv1.SchemeGroupVersion.WithResource(strings.ToLower(kind)+"s")).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", []string{unreadable("webhook configurations", err)}
		}
		for _, c := range list.Items {
			hooks, _, _ := unstructured.NestedSlice(c.Object, "webhooks")
			for _, h := range hooks {
				if m, _ := h.(map[string]any); m["name"] == name {
					return kind + " " + c.GetName(), nil
				}
			}
		}
	}
	return "", nil
}

// apiServices is the resource that registers aggregated APIs.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiService finds out why an API is not available: from its condition and its Service.
func (d *Diagnoser) apiService(ctx context.Context, u *unstructured.Unstructured) lead {
	l := lead{cause: "not checked yet", symptom: true}
	for _, c := range listConditions(u) {
		switch {
		case c.kind != "Available":
		case c.status == "True":
			return lead{}
		default:
			l = lead{cause: c.String(), evidence: []string{c.String()}}
		}
	}
	namespace, _, _ := unstructured.NestedString(u.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(u.Object, "spec", "service", "name")
	if name == "" {
		return l
	}
	more := d.withServiceCause(ctx, namespace, name, l.cause)
	l.cause, l.evidence = more.cause, append(l.evidence, more.evidence...)
	return l
}

// metricsGroup matches the metrics API that an autoscaler could not reach.
var metricsGroup = regexp.MustCompile(`(?:custom\.|external\.)?metrics\.k8s\.io`)

// autoscaler finds out why an autoscaler does not scale and, if it gets no metrics, checks the metrics API.
func (d *Diagnoser) autoscaler(ctx context.Context, q *inquiry) lead {
	l := q.conditionCause()
	c := worstCondition(q.live, "")
	if c == nil {
		return l
	}
	group := metricsGroup.FindString(c.message)
	if group == "" {
		return l
	}
	if served := d.addAPIServiceCauses(ctx, group, &l); !served {
		l.cause += fmt.Sprintf("; no metrics server is installed: nothing serves %s", group)
	}
	return l
}

// addAPIServiceCauses adds to a lead why the APIServices of a group do not answer. It reports false
// only if the group certainly has none.
func (d *Diagnoser) addAPIServiceCauses(ctx context.Context, group string, l *lead) (served bool) {
	apis, err := d.dyn.Resource(apiServices).List(ctx, metav1.ListOptions{})
	if err != nil {
		l.gaps = append(l.gaps, unreadable("APIServices", err))
		return true
	}
	for i := range apis.Items {
		api := &apis.Items[i]
		if g, _, _ := unstructured.NestedString(api.Object, "spec", "group"); g != group {
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
