package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
)

// A release is stored in one Secret or ConfigMap, whose data the API server limits to 1 MiB. Helm
// detects a larger release only after it has created the namespace and crds/; Fit detects it before
// the first write (R28).

const (
	maxStored = 1 << 20
	// storedSlack is reserved for data that the operation adds: the reason for a failure, and
	// the times of hooks.
	storedSlack = 4 << 10
	// maxUncompressed is the largest size of a release in JSON that fits even without compression:
	// base64 encodes 3 bytes as 4.
	maxUncompressed = (maxStored - storedSlack) / 4 * 3
)

// Fit returns the record that a release has room for: the full one or, with a warning, one without
// the chart tree, or nil. It returns an error if the release is too large even without a record.
func Fit(rel *rel1.Release, full *Record) (*Record, []plan.Warning, error) {
	if connect.RecordResource(connect.StorageDriver()) == "" {
		return full, nil, nil
	}
	size, err := storedSize(rel, full)
	if err != nil || size <= maxStored-storedSlack {
		return full, nil, err
	}
	warn := func(omitted, consequence string) []plan.Warning {
		return []plan.Warning{{Rule: "R28", Chart: full.Tree.Path, Message: fmt.Sprintf(
			"%s is not recorded, because the release would need %s, too close to the API server's limit of 1 MiB; rollback and uninstall will %s; to record it, exclude files from the chart with .helmignore, or split the chart", omitted, mebibytes(size), consequence)}}
	}
	// The order of groups inside a chart is in the annotations of the manifest.
	short := &Record{Version: full.Version, Sequenced: full.Sequenced, Tree: full.Tree.WithoutOrder(), Readiness: full.Readiness, SecretPaths: full.SecretPaths}
	shortSize, err := storedSize(rel, short)
	if err != nil {
		return nil, nil, err
	}
	if shortSize <= maxStored-storedSlack {
		if len(full.Tree.Inferred) > 0 {
			return short, warn("the inferred order", "use the order its annotations declare"), nil
		}
		return short, warn("the order of its subcharts", "use only the order of its groups"), nil
	}
	bareSize, err := storedSize(rel, nil)
	if err != nil {
		return nil, nil, err
	}
	if bareSize > maxStored || bareSize > maxStored-storedSlack && passesNoReturn(rel, full.Tree) {
		return nil, nil, fmt.Errorf("release %s: its record needs %s, and the API server's limit is 1 MiB: exclude files from the chart (.helmignore), split it into several releases, or store releases elsewhere (HELM_DRIVER=sql)",
			rel.Name, mebibytes(bareSize))
	}
	return nil, warn("its order", "apply or delete everything at once"), nil
}

// passesNoReturn reports whether the chart of a release has a point of no return: its reason is stored in the record before its
// group starts (R33a), and if it did not fit, neither would the final status (R34).
func passesNoReturn(rel *rel1.Release, tree *plan.Chart) bool {
	has := func(manifest string) bool { return strings.Contains(manifest, plan.AnnotationNoReturn) }
	return has(rel.Manifest) || slices.ContainsFunc(rel.Hooks, func(h *rel1.Hook) bool { return has(h.Manifest) }) || treeHasNoReturn(tree)
}

func treeHasNoReturn(c *plan.Chart) bool {
	return c != nil && (c.NoReturn != "" || slices.ContainsFunc(c.Subcharts, func(s plan.Subchart) bool { return treeHasNoReturn(s.Chart) }))
}

func mebibytes(n int) string { return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20)) }

// storedSize returns the size of a release in its Secret, in bytes, with a record unless r is nil. If
// the release fits even without compression, the result is an upper bound.
func storedSize(rel *rel1.Release, r *Record) (int, error) {
	copied, chart := *rel, *rel.Chart
	copied.Chart = &chart
	chart.Files = slices.Clone(chart.Files)
	if r != nil {
		if err := r.write(&copied); err != nil {
			return 0, err
		}
	}
	data, err := json.Marshal(&copied)
	if err != nil {
		return 0, fmt.Errorf("measure release %s: %w", rel.Name, err)
	}
	if len(data) <= maxUncompressed {
		return base64.StdEncoding.EncodedLen(len(data)), nil
	}
	return encodedSize(data)
}

// encodedSize returns the size of a release in JSON as Helm's storage encodes it, in bytes.
func encodedSize(data []byte) (int, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	return base64.StdEncoding.EncodedLen(packed.Len()), err
}

// tooLarge reports whether the API server may have refused a release because of its size.
func tooLarge(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// shortened returns at most 80 characters of a description.
func shortened(description string) string {
	const maxLen = 80
	if runes := []rune(description); len(runes) > maxLen {
		return string(runes[:maxLen]) + "…"
	}
	return description
}
