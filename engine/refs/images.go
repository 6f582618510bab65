package refs

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// Image is a container image that an object names.
type Image struct {
	Name string `json:"image"`
	Path string `json:"path"` // spec.template.spec.containers[0].image
	// By is the container or the volume that uses it.
	By string `json:"by,omitempty"`
	// Guess is set for a text that only looks like an image: in an argument, a variable or a custom resource.
	Guess bool `json:"guess,omitempty"`
}

// Images returns the images that an object names, those of its containers and volumes first.
func Images(object plan.Object, fields map[string]any) (images []Image) {
	pods, ok := FindPods(object, fields)
	if !ok {
		if IsCustom(object) {
			images = guessImages(Field{fields, ""}, images)
		}
		return images
	}
	spec := Field{pods.Spec, pods.Path}
	add := func(image Field, by string) {
		if name := image.Text(); name != "" {
			images = append(images, Image{Name: name, Path: image.Path, By: by})
		}
	}
	containers := containersOf(spec)
	for _, c := range containers {
		add(c.At("image"), c.At("name").Text())
	}
	for _, v := range spec.At("volumes").Each() {
		add(v.At("image", "reference"), v.At("name").Text())
	}
	for _, c := range containers {
		by := c.At("name").Text()
		for _, text := range slices.Concat(c.At("command").Each(), c.At("args").Each()) {
			images = guess(text, by, images)
		}
		for _, e := range c.At("env").Each() {
			images = guess(e.At("value"), by, images)
		}
	}
	return images
}

// IsCustom reports whether an object is a custom resource. Those of the Kubernetes project (*.k8s.io) do not count.
func IsCustom(o plan.Object) bool {
	return strings.Contains(o.Group, ".") && !strings.HasSuffix(o.Group, ".k8s.io")
}

// likeImage matches texts that are hardly anything else than an image with a tag or a digest.
var likeImage = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]*(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$`)

// guess adds the image that a text consists of, or an argument such as --image=example/app:1.0.
func guess(text Field, by string, images []Image) []Image {
	s := text.Text()
	if _, value, isFlag := strings.Cut(s, "="); isFlag {
		s = value
	}
	slash := strings.LastIndex(s, "/")
	if slash > 0 && strings.ContainsAny(s[slash:], ":@") && likeImage.MatchString(s) {
		images = append(images, Image{Name: s, Path: text.Path, By: by, Guess: true})
	}
	return images
}

// guessImages adds the images in a custom resource: in fields that are called image, in pairs of a repository and a tag, and
// texts that look like one.
func guessImages(at Field, images []Image) []Image {
	switch value := at.Value.(type) {
	case string:
		return guess(at, "", images)
	case []any:
		for _, item := range at.Each() {
			images = guessImages(item, images)
		}
	case map[string]any:
		if repository, tag := at.At("repository").Text(), at.At("tag").Text(); repository != "" && tag != "" {
			name := strings.TrimPrefix(at.At("registry").Text()+"/"+repository+":"+tag, "/")
			return append(images, Image{Name: name, Path: at.Path, Guess: true})
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			field := at.At(key)
			if s := field.Text(); s != "" && strings.HasSuffix(strings.ToLower(key), "image") && likeImage.MatchString(s) {
				images = append(images, Image{Name: s, Path: field.Path, Guess: true})
				continue
			}
			images = guessImages(field, images)
		}
	}
	return images
}
