package kubelet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// streamTimeout is how long a client may take to open its streams.
const streamTimeout = 10 * time.Second

// exec handles kubectl exec. Nothing runs in a simulated container, so every command repeats its input until the
// line "exit" or the end of the input.
func (k *Kubelet) exec(w http.ResponseWriter, r *http.Request) {
	pod := k.pod(r)
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	opened := make(chan httpstream.Stream, 5)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if conn == nil {
		return // UpgradeResponse has written the error
	}
	defer conn.Close()
	streams := map[string]httpstream.Stream{}
	for range expectedStreams(r) {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		case <-time.After(streamTimeout):
			return
		}
	}
	echo(streams[corev1.StreamTypeStdin], streams[corev1.StreamTypeStdout], r.PathValue("pod"))
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(metav1.Status{Status: metav1.StatusSuccess})
}

// expectedStreams returns the number of streams that a client opens: one for the outcome, one for each requested
// stream, and one for the size of a terminal.
func expectedStreams(r *http.Request) int {
	n := 1
	for _, flag := range []string{corev1.ExecStdinParam, corev1.ExecStdoutParam, corev1.ExecStderrParam, corev1.ExecTTYParam} {
		if r.URL.Query().Get(flag) == "1" {
			n++
		}
	}
	return n
}

// echo repeats typed characters, and each line once it is complete.
func echo(in io.Reader, out io.Writer, pod string) {
	if out == nil {
		return
	}
	_, _ = fmt.Fprintf(out, "pod %s is simulated: no program runs in it; it echoes each line until you type exit\r\n$ ", pod)
	if in == nil {
		return
	}
	const endOfInput = 4 // ctrl-d
	line := ""
	for typed := bufio.NewReader(in); ; {
		c, err := typed.ReadByte()
		switch {
		case err != nil, c == endOfInput && line == "":
			return
		case c != '\r' && c != '\n':
			line += string(c)
			_, err = out.Write([]byte{c})
		case line == "exit":
			_, _ = io.WriteString(out, "\r\n")
			return
		default:
			_, err = fmt.Fprintf(out, "\r\n%s\r\n$ ", line)
			line = ""
		}
		if err != nil {
			return
		}
	}
}
