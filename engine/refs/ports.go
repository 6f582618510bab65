package refs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// SharedPorts names the ports of a Service or of a container that have the same number, for example "spec.ports: 53/UDP and
// 53/TCP". Client-side apply tells ports apart by number alone, so an update may lose one of them.
func SharedPorts(object plan.Object, fields map[string]any) (shared []string) {
	if object.Kind == "Service" && object.Group == "" {
		return samePorts(Field{fields, ""}.At("spec", "ports"), "port")
	}
	pods, _ := FindPods(object, fields)
	for _, kind := range []string{"initContainers", "containers"} {
		for _, c := range (Field{pods.Spec, pods.Path}).At(kind).Each() {
			shared = append(shared, samePorts(c.At("ports"), "containerPort")...)
		}
	}
	return shared
}

// samePorts names the elements of a list that have the same number.
func samePorts(list Field, number string) (shared []string) {
	var order []string
	ports := map[string][]string{}
	for _, p := range list.Each() {
		n := fmt.Sprint(p.At(number).Value)
		protocol := cmp.Or(p.At("protocol").Text(), "TCP")
		if !slices.Contains(order, n) {
			order = append(order, n)
		}
		ports[n] = append(ports[n], n+"/"+protocol)
	}
	for _, n := range order {
		if len(ports[n]) > 1 {
			shared = append(shared, list.Path+": "+strings.Join(ports[n], " and "))
		}
	}
	return shared
}

// LosesPorts is the warning about an element of SharedPorts.
func LosesPorts(o plan.Object, ports string) string {
	return fmt.Sprintf("%s: %s have the same number: client-side apply tells ports apart by number alone, so an upgrade may lose one or fail; "+
		"use --server-side=true", o, ports)
}
