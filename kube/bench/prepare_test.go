package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/kube/throwaway"
	"lockstep/kube/throwaway/auditlog"
)

// benchmark holds what all rows share.
type benchmark struct {
	options
	dir        string            // for charts, the audit log and the folders of the tools
	programs   map[string]string // paths of the copies, by tool; rivals only if they were found
	cluster    *throwaway.Cluster
	startup    time.Duration // how long the cluster took to start
	client     dynamic.Interface
	env        []string
	logFigures []logFigure
	namespaces int // the number of namespaces used so far
}

// logFigure is a figure that readAuditLog computes at the end.
type logFigure struct {
	figure *figure
	of     func(auditlog.Log) map[string][]float64
}

func prepare(ctx context.Context, o options) (b *benchmark, err error) {
	b = &benchmark{options: o, programs: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "lockstep-bench-"); err != nil {
		return b, err
	}
	for _, t := range tools {
		path, err := t.find(ctx, o)
		if err == nil && path != "" {
			err = b.copyProgram(t.name, path)
		}
		if err != nil {
			return b, err
		}
	}
	start := time.Now()
	if b.cluster, err = throwaway.Start(ctx, throwaway.Options{AuditLog: filepath.Join(b.dir, "audit.log")}); err != nil {
		return b, err
	}
	b.startup = time.Since(start)
	config, err := clientcmd.BuildConfigFromFlags("", b.cluster.Kubeconfig)
	if err != nil {
		return b, fmt.Errorf("read the sandbox's kubeconfig: %w", err)
	}
	config.UserAgent, config.QPS = "bench", -1
	if b.client, err = dynamic.NewForConfig(config); err != nil {
		return b, err
	}
	b.env = append(os.Environ(), "HOME="+b.dir, "XDG_CACHE_HOME="+b.dir+"/cache", "XDG_CONFIG_HOME="+b.dir+"/config",
		"XDG_DATA_HOME="+b.dir+"/data", "XDG_STATE_HOME="+b.dir+"/state", "KUBECONFIG="+b.cluster.Kubeconfig, "CI=", "TERM=xterm-256color")
	return b, nil
}

func (b *benchmark) close() error {
	var err error
	if b.cluster != nil {
		err = b.cluster.Close()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// readAuditLog stops the cluster, so that its audit log is complete, then computes the figures from the log.
func (b *benchmark) readAuditLog() error {
	err := b.cluster.Close()
	b.cluster = nil
	if err != nil {
		return err
	}
	log, err := auditlog.Read(filepath.Join(b.dir, "audit.log"))
	if err != nil {
		return err
	}
	for _, f := range b.logFigures {
		for tool, values := range f.of(log) {
			f.figure.Samples[tool] = append(f.figure.Samples[tool], values...)
		}
	}
	return nil
}

// about describes a benchmark run: when, where and with which versions.
type about struct {
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Commit  string `json:"commit"`
	Helm    string `json:"helm"`
	// Rivals are the versions of the rivals that were found.
	Rivals map[string]string `json:"rivals,omitempty"`
	// Load is the minimum and the maximum of the machine's load average during the run; nil if it is unknown.
	Load []float64 `json:"load,omitempty"`
}

// noteLoad updates Load with the current load average.
func (a *about) noteLoad() {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return
	}
	minute, _, _ := strings.Cut(string(text), " ")
	if load, err := strconv.ParseFloat(minute, 64); err == nil {
		all := append(a.Load, load)
		a.Load = []float64{slices.Min(all), slices.Max(all)}
	}
}

var versionPattern = regexp.MustCompile(`\d+\.\d+\S*`)

func (b *benchmark) describe() about {
	outputOf := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}
	commit := outputOf("git", "rev-parse", "--short", "HEAD")
	if outputOf("git", "status", "--porcelain", "--untracked-files=no") != "" {
		commit += " with local changes"
	}
	versions := map[string]string{}
	for _, t := range rivals {
		if path := b.programs[t.name]; path != "" {
			versions[t.name] = cmp.Or(versionPattern.FindString(outputOf(path, "version")), "of unknown version")
		}
	}
	return about{
		Rivals: versions,
		Date:   time.Now().UTC().Format(time.DateOnly), Commit: commit, Helm: outputOf("go", "list", "-m", "-f", "{{.Version}}", "helm.sh/helm/v4"),
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
	}
}
