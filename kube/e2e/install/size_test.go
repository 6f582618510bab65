package install

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestManyObjects installs 2,000 objects and checks the size that lockstep's record adds to the release's Secret (R28).
func TestManyObjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	body := "{{- range $i := until 2000 }}\n---\n" + strings.ReplaceAll(rig.ConfigMap("c-NUMBER", map[string]string{plan.AnnotationGroup: "g-TENS"}, "more: {{ sha256sum (toString $i) }}"),
		"NUMBER", "{{ $i }}") + "\n{{- end }}\n"
	body = strings.ReplaceAll(body, `"g-TENS"`, `"g-{{ div $i 500 }}"
    helm.sh/depends-on/resource-groups: '{{ if ge $i 500 }}["g-{{ sub (div $i 500) 1 }}"]{{ else }}[]{{ end }}'`)
	out := r.Deploy("plain", rig.UseChart(rig.ChartOf(t, body), nil))
	if n := out.State.Count().Total; n != 2000 || len(out.State.Phases[0].Groups) != 4 {
		t.Errorf("%d objects in %d groups", n, len(out.State.Phases[0].Groups))
	}
	secret, err := r.Cluster.CoreV1().Secrets(r.Namespace).Get(t.Context(), "sh.helm.release.v1.t.v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	with := len(secret.Data["release"])
	last, err := r.Helm().Releases.Last("t")
	if err != nil {
		t.Fatal(err)
	}
	rel := last.(*rel1.Release)
	rel.Chart.Files = slices.DeleteFunc(rel.Chart.Files, func(f *common.File) bool { return strings.HasPrefix(f.Name, ".lockstep/") })
	without := storedSize(t, rel)
	t.Logf("the release takes %d bytes, without the record %d", with, without)
	if with > 1<<18 || with-without > 2048 {
		t.Errorf("the release takes %d bytes, of which the record is %d", with, with-without)
	}
}

// storedSize returns the size of a release in Helm's storage in bytes.
func storedSize(t *testing.T, rel *rel1.Release) int {
	t.Helper()
	data, err := json.Marshal(rel)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodedLen(packed.Len())
}

// TestReleaseTooLarge: a release that is too large is refused before the first write.
func TestReleaseTooLarge(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	noise := func(n int) string {
		b := make([]byte, n/2)
		_, _ = rand.Read(b)
		return hex.EncodeToString(b)
	}
	_, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "noise: "+noise(500_000)), rig.ConfigMap("b", nil, "noise: "+noise(500_000))), nil))
	if err == nil || !strings.Contains(err.Error(), "1 MiB") || !strings.Contains(err.Error(), "release t") {
		t.Errorf("error %v", err)
	}
	if w := r.Writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}

// findBorder searches, by bisection from a guess, for a size that fits and one that is too large, at most maxGap bytes
// larger. It cannot be computed, because it depends on the compression.
func findBorder(guess, maxGap int, fit func(int) bool) (fits, tooLarge int) {
	fits, tooLarge = guess, guess
	for step := 8 * maxGap; ; step *= 4 {
		if fit(guess) {
			if fits = guess; tooLarge > fits {
				break
			}
			guess += step
		} else {
			if tooLarge = guess; fits < tooLarge {
				break
			}
			guess -= step
		}
	}
	for tooLarge-fits > maxGap {
		if size := (fits + tooLarge) / 2; fit(size) {
			fits = size
		} else {
			tooLarge = size
		}
	}
	return fits, tooLarge
}

// TestLargestRelease deploys the largest release that is not refused. Helm cannot store the refused ones either (R28).
func TestLargestRelease(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	text := hex.EncodeToString(noise)
	sized := func(size int) *charts.Chart {
		return rig.MakeChart(t, rig.Files{"templates/all.yaml": rig.ConfigMap("a", rig.Group("one")) + "\n---\n" + rig.ConfigMap("b", rig.Group("two", "one")), "noise": text[:size]})
	}
	r := rig.New(t)
	fits, tooLarge := findBorder(1_084_000, 256, func(size int) bool {
		_, err := r.Install("plain", rig.UseChart(sized(size), nil))
		return err == nil
	})
	const times = 512 // the compressed size of a release's times varies by less
	r.MustRun(r.Install("plain", rig.UseChart(sized(fits-times), nil)))
	r.MustRun(r.Uninstall())
	in := action.NewInstall(r.Helm())
	in.ReleaseName, in.Namespace, in.WaitStrategy = "t", r.Namespace, helmkube.HookOnlyStrategy
	if _, err := in.RunWithContext(t.Context(), rig.HelmChart(t, sized(tooLarge+times)), nil); err == nil {
		t.Errorf("Helm stores a release that lockstep refuses: %d fits, %d does not", fits, tooLarge)
	}
}

// TestTimingsTooLarge deploys a release that has room for its record but not for its timings,
// which are omitted (R28).
func TestTimingsTooLarge(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	groups := "{{- range $i := until 200 }}\n---\n" + strings.ReplaceAll(rig.ConfigMap("c-NUMBER", map[string]string{plan.AnnotationGroup: "g-NUMBER", plan.AnnotationGroupDependsOn: "AFTER"}),
		"NUMBER", "{{ $i }}") + "\n{{- end }}\n"
	groups = strings.ReplaceAll(groups, `"AFTER"`, `'{{ if $i }}["g-{{ sub $i 1 }}"]{{ else }}[]{{ end }}'`)
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	text := hex.EncodeToString(noise)
	var op *kube.Operation
	findBorder(1_073_000, 256, func(size int) bool {
		c := rig.MakeChart(t, rig.Files{"templates/all.yaml": groups, "noise": text[:size]})
		try, err := r.Install("plain", rig.UseChart(c, nil))
		if err != nil || len(try.Warnings()) > 0 {
			return false
		}
		op = try
		return true
	})
	r.MustRun(op, nil)
	if got := r.Timings(0); len(got) != 0 {
		t.Errorf("%d timings were stored, so the test proves nothing", len(got))
	}
	r.MustRun(r.Uninstall())
}
