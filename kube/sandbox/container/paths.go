package container

import (
	"path"
	"path/filepath"
	"strings"
)

// pathMap maps the mount paths of a container to paths of this machine.
type pathMap map[string]string

func (c *containerRun) paths() pathMap {
	m := pathMap{}
	for _, v := range c.spec.VolumeMounts {
		m[path.Clean(v.MountPath)] = filepath.Join(c.root(), path.Clean("/"+v.MountPath))
	}
	return m
}

// replace replaces each mount path in text that is a whole path or the start of one.
func (m pathMap) replace(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		from := ""
		if i == 0 || !continuesPath(text[i-1]) {
			for p := range m {
				if rest, ok := strings.CutPrefix(text[i:], p); ok && len(p) > len(from) && (rest == "" || rest[0] == '/' || !continuesPath(rest[0])) {
					from = p
				}
			}
		}
		if from == "" {
			out.WriteByte(text[i])
			i++
			continue
		}
		out.WriteString(m[from])
		i += len(from)
	}
	return out.String()
}

// continuesPath reports whether a byte may be part of a path.
func continuesPath(b byte) bool {
	return b == '/' || b == '.' || b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b >= 0x80
}
