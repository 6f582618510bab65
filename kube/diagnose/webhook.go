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

// Messages of the API server: a call to a webhook failed, or a conversion webhook failed.
var (
	webhookFailed    = regexp.MustCompile(`failed calling webhook "([^"]+)": (?:failed to call webhook: )?(?:Post "([^"]*)": )?(.*)`)
	conversionFailed = regexp.MustCompile(`conversion webhook for (\S+), Kind=(\S+) failed: (?:Post "([^"]*)": )?(.*)`)
	serviceURL       = regexp.MustCompile(`^https://([^./]+)\.([^./]+)\.svc(?:[:/]|$)`)
)

// webhookCause names the configuration of the webhook in a message. If the call to the webhook failed, it also checks the
// webhook's Service.
func (d *Diagnoser) webhookCause(ctx context.Context, message string) finding {
	if m := webhookDenied.FindStringSubmatch(message); m != nil {
		config, gap := d.webhookConfig(ctx, m[1])
		why := cmp.Or(strings.TrimSpace(m[2]), "no reason given")
		return finding{cause: refusedFor(why, webhookName(m[1], config)), evidence: gap}
	}
	if m := webhookFailed.FindStringSubmatch(message); m != nil {
		config, gap := d.webhookConfig(ctx, m[1])
		f := d.withServiceAt(ctx, m[2], fmt.Sprintf("%s failed: %s", webhookName(m[1], config), explainCall(m[3])))
		f.evidence = append(f.evidence, gap...)
		return f
	}
	if m := conversionFailed.FindStringSubmatch(message); m != nil {
		return d.withServiceAt(ctx, m[3], fmt.Sprintf("the conversion webhook for %s %s failed: %s", m[1], m[2], explainCall(m[4])))
	}
	return finding{}
}

// RetryReason shortens the reason of a retry (connect.Listener) if a webhook failed.
func RetryReason(reason string) string {
	if m := webhookFailed.FindStringSubmatch(reason); m != nil {
		return fmt.Sprintf("webhook %s failed: %s", m[1], explainCall(m[3]))
	}
	if m := conversionFailed.FindStringSubmatch(reason); m != nil {
		return fmt.Sprintf("the conversion webhook for %s %s failed: %s", m[1], m[2], explainCall(m[4]))
	}
	return reason
}

// webhookName names a webhook and, if it is known, its configuration.
func webhookName(name, config string) string {
	if config == "" {
		return "webhook " + name
	}
	return fmt.Sprintf("webhook %s of %s", name, config)
}

// explainCall explains why the API server could not call a webhook: an untrusted certificate, the most common fault of a new one,
// and a timeout.
func explainCall(why string) string {
	switch {
	case strings.Contains(why, "signed by unknown authority"):
		return why + "; its caBundle does not match its certificate"
	case why == context.DeadlineExceeded.Error():
		return "no answer within its timeout"
	}
	return why
}

// withServiceAt adds to a cause what is wrong with the Service at an address, or else the address itself.
func (d *Diagnoser) withServiceAt(ctx context.Context, address, cause string) finding {
	m := serviceURL.FindStringSubmatch(address)
	if m == nil {
		if address != "" {
			cause += " (" + address + ")"
		}
		return finding{cause: cause}
	}
	return d.withServiceCause(ctx, m[2], m[1], cause)
}

// withServiceCause adds to a cause why a Service has no endpoints. If it has some, the cause is unchanged.
func (d *Diagnoser) withServiceCause(ctx context.Context, namespace, name, cause string) finding {
	f := finding{cause: cause}
	r := d.Object(ctx, plan.Object{Kind: "Service", Namespace: namespace, Name: name})
	if r.hasEndpoints {
		return f
	}
	if r.absent && r.Symptom && strings.HasSuffix(cause, fmt.Sprintf("service %q not found", name)) { // cause says so
		f.cause += "; create the Service, or delete the webhook"
		return f
	}
	f.cause += fmt.Sprintf("; Service %s/%s: %s", namespace, name, r.Cause)
	f.tally, f.evidence = r.Tally, r.Evidence
	return f
}

// webhookConfig returns the kind and name of a webhook's configuration, "" if unknown. gap is a failed read, if any.
func (d *Diagnoser) webhookConfig(ctx context.Context, name string) (config string, gap []string) {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		list, err := d.dyn.Resource(admissionv1.SchemeGroupVersion.WithResource(strings.ToLower(kind)+"s")).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", []string{Unreadable("webhook configurations", err)}
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

// apiServiceResource is the resource of APIServices.
var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiServiceCause finds out why an aggregated API is not available, from its APIService's condition and its Service.
func (d *Diagnoser) apiServiceCause(ctx context.Context, u *unstructured.Unstructured) finding {
	f := finding{cause: "not checked yet", symptom: true}
	for _, c := range listConditions(u) {
		switch {
		case c.kind != "Available":
		case c.status == "True":
			return finding{}
		default:
			f = finding{cause: c.String(), evidence: []string{c.String()}}
		}
	}
	namespace, _, _ := unstructured.NestedString(u.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(u.Object, "spec", "service", "name")
	if name == "" {
		return f
	}
	service := d.withServiceCause(ctx, namespace, name, f.cause)
	f.cause, f.evidence = service.cause, append(f.evidence, service.evidence...)
	return f
}

// metricsGroup matches the API group of the metrics that an autoscaler could not get.
var metricsGroup = regexp.MustCompile(`(?:custom\.|external\.)?metrics\.k8s\.io`)

// autoscalerCause finds out why a HorizontalPodAutoscaler does not scale. If it gets no metrics, it checks their API.
func (d *Diagnoser) autoscalerCause(ctx context.Context, b *reportBuilder) finding {
	f := b.conditionCause()
	c := worstCondition(b.live, "")
	if c == nil {
		return f
	}
	group := metricsGroup.FindString(c.message)
	if group == "" {
		return f
	}
	if served := d.addAPIServiceCauses(ctx, group, &f); !served {
		install := "a metrics adapter"
		if group == "metrics.k8s.io" {
			install = "Metrics Server"
		}
		f.cause += fmt.Sprintf("; nothing serves %s; install %s", group, install)
	}
	return f
}

// addAPIServiceCauses adds to a finding why the APIServices of a group are not available. served is false only if the
// group certainly has none.
func (d *Diagnoser) addAPIServiceCauses(ctx context.Context, group string, f *finding) (served bool) {
	apis, err := d.dyn.Resource(apiServiceResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		f.gaps = append(f.gaps, Unreadable("APIServices", err))
		return true
	}
	for i := range apis.Items {
		api := &apis.Items[i]
		if g, _, _ := unstructured.NestedString(api.Object, "spec", "group"); g != group {
			continue
		}
		served = true
		if down := d.apiServiceCause(ctx, api); down.cause != "" {
			f.cause += fmt.Sprintf("; APIService %s: %s", api.GetName(), down.cause)
			f.evidence = append(f.evidence, down.evidence...)
		}
	}
	return served
}
