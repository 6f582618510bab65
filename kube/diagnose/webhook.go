package diagnose

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
)

// What the API server says of admission webhooks: one that refuses, one that does
// not answer as it should, and one that was to convert between versions.
var (
	hookRefuses  = regexp.MustCompile(`admission webhook "([^"]+)" denied the request(?:: | without explanation)?(.*)`)
	hookFails    = regexp.MustCompile(`failed calling webhook "([^"]+)": (?:failed to call webhook: )?(?:Post "([^"]*)": )?(.*)`)
	convertFails = regexp.MustCompile(`conversion webhook for (\S+), Kind=(\S+) failed: (?:Post "([^"]*)": )?(.*)`)
	hookService  = regexp.MustCompile(`^https://([^./]+)\.([^./]+)\.svc(?:[:/]|$)`)
)

// webhook follows a webhook that has kept an object out to its configuration and,
// where it does not answer, to its Service and the pods behind that.
func (d *Diagnoser) webhook(ctx context.Context, words string) lead {
	if m := hookRefuses.FindStringSubmatch(words); m != nil {
		config, gap := d.hookConfig(ctx, m[1])
		why := strings.TrimSpace(m[2])
		if why == "" {
			why = "no reason given"
		}
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

// hookName returns a webhook with its configuration, if that is known.
func hookName(name, config string) string {
	if config == "" {
		return "webhook " + name
	}
	return fmt.Sprintf("webhook %s of %s", name, config)
}

// certificateHint says what it means that the API server does not trust a certificate, which
// is the most usual fault of a new webhook.
func certificateHint(why string) string {
	if strings.Contains(why, "signed by unknown authority") {
		return why + "; its caBundle does not match its certificate"
	}
	return why
}

// withServiceAt adds to what a webhook does not do why its Service does not, where the
// address is one's.
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

// withServiceCause adds why a Service does not serve, unless it seems to.
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

// hookConfig names the configuration that a webhook is part of, "" where that is
// not known; gap says what could not be read.
func (d *Diagnoser) hookConfig(ctx context.Context, name string) (config string, gap []string) {
	api := d.kube.AdmissionregistrationV1()
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", []string{unreadable("webhook configurations", err)}
	}
	for _, c := range validating.Items {
		if slices.ContainsFunc(c.Webhooks, func(h admissionv1.ValidatingWebhook) bool { return h.Name == name }) {
			return "ValidatingWebhookConfiguration " + c.Name, nil
		}
	}
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", []string{unreadable("webhook configurations", err)}
	}
	for _, c := range mutating.Items {
		if slices.ContainsFunc(c.Webhooks, func(h admissionv1.MutatingWebhook) bool { return h.Name == name }) {
			return "MutatingWebhookConfiguration " + c.Name, nil
		}
	}
	return "", nil
}

// apiServices is where APIs that somebody serves beside the API server's own are
// registered.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiService says why an API is not available: its condition, then the Service
// that is to serve it.
func (d *Diagnoser) apiService(ctx context.Context, u *unstructured.Unstructured) lead {
	l := lead{cause: "not checked yet", symptom: true}
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
	more := d.withServiceCause(ctx, service["namespace"], service["name"], l.cause)
	l.cause, l.evidence = more.cause, append(l.evidence, more.evidence...)
	return l
}

// metricsGroup is the API of metrics that an autoscaler could not ask.
var metricsGroup = regexp.MustCompile(`(?:custom\.|external\.)?metrics\.k8s\.io`)

// autoscaler says why an autoscaler does not scale, and where it gets no metrics,
// what became of their API.
func (d *Diagnoser) autoscaler(ctx context.Context, q *inquiry) lead {
	l := q.custom()
	c := worstCondition(q.live, "")
	if c == nil {
		return l
	}
	group := metricsGroup.FindString(c.message)
	if group == "" {
		return l
	}
	if served := d.servedBy(ctx, group, &l); !served {
		l.cause += fmt.Sprintf("; no metrics server is installed: nothing serves %s", group)
	}
	return l
}

// servedBy adds to a lead why the APIServices of a group do not answer, as far as they
// say. It reports whether there may be any.
func (d *Diagnoser) servedBy(ctx context.Context, group string, l *lead) (served bool) {
	apis, err := d.dyn.Resource(apiServices).List(ctx, metav1.ListOptions{})
	if err != nil {
		l.gaps = append(l.gaps, unreadable("APIServices", err))
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
