// SPDX-License-Identifier: Apache-2.0

package pullsecret

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const (
	// dockerHub is where images without a host come from.
	dockerHub = "docker.io"
	// official is the path before names of a single word on Docker Hub.
	official = "library/"
	// maxImage is more than any registry allows.
	maxImage = 1024
)

// hubNames are hosts under which credentials of Docker Hub are stored.
var hubNames = map[string]bool{dockerHub: true, "index.docker.io": true, "registry-1.docker.io": true}

// Image is where an image comes from.
type Image struct {
	// Host is the registry's, with its port.
	Host string
	// Path is the repository in it, without tag and digest.
	Path string
}

// ParseImage parses the reference of an image. The part before the first slash is a host if it cannot
// be part of a path on Docker Hub.
func ParseImage(reference string) (Image, error) {
	if reference == "" {
		return Image{}, errors.New("the reference of the image is empty")
	}
	if len(reference) > maxImage {
		return Image{}, fmt.Errorf("the reference of the image has %d characters, more than %d", len(reference), maxImage)
	}
	if strings.ContainsFunc(reference, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) || strings.Contains(reference, "://") {
		return Image{}, fmt.Errorf("%q is not the reference of an image, such as registry.example.com/team/app@sha256:…", reference)
	}
	host, path, found := strings.Cut(reference, "/")
	if !found || !isHost(host) {
		host, path = dockerHub, reference
	}
	path, _, _ = strings.Cut(path, "@")
	if slash := strings.LastIndexByte(path, '/'); strings.Contains(path[slash+1:], ":") {
		path = path[:slash+1+strings.IndexByte(path[slash+1:], ':')]
	}
	if hubNames[strings.ToLower(host)] {
		host = dockerHub
		if !strings.Contains(path, "/") {
			path = official + path
		}
	}
	return Image{Host: host, Path: path}, nil
}

func isHost(s string) bool {
	return strings.ContainsAny(s, ".:") || s == "localhost" || strings.ToLower(s) != s
}
