// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"regexp"
	"strings"
)

// image is what a container runtime says that a container runs.
type image struct {
	// repository is where the image is, such as docker.io/library/nginx; empty where the
	// runtime knows it by its own digest only.
	repository string
	// digest is 64 hexadecimal digits: of the image in its registry where repository is
	// known, else the runtime's own.
	digest string
}

var (
	hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// schemes come before what Docker's shim calls an image.
	schemes = []string{"docker-pullable://", "docker://", "containerd://", "cri-o://"}
)

// parseImageID reads status.containerStatuses[].imageID as the container runtimes write it:
//
//	docker-pullable://nginx@sha256:…    Docker
//	docker://sha256:…                   Docker, image built on the node
//	docker.io/library/nginx@sha256:…    containerd, CRI-O
//	sha256:…                            containerd, image loaded into the node
//	…                                   CRI-O, digits alone
//
// false means that it names no version of an image.
func parseImageID(id string) (image, bool) {
	for _, s := range schemes {
		if rest, ok := strings.CutPrefix(id, s); ok {
			id = rest
			break
		}
	}
	repository, digest := "", id
	if at := strings.LastIndex(id, "@"); at >= 0 {
		repository, digest = id[:at], id[at+1:]
	}
	digest = strings.TrimPrefix(digest, "sha256:")
	if !hexDigest.MatchString(digest) {
		return image{}, false
	}
	return image{repository: repository, digest: digest}, true
}

// id is the image for scanners: what a registry knows it by.
func (i image) id() string { return i.repository + "@sha256:" + i.digest }

// app is the last part of the repository.
func (i image) app() string { return i.repository[strings.LastIndex(i.repository, "/")+1:] }

// split splits the name of an image, as a pod has it, into repository and tag.
func split(reference string) (repository, tag string) {
	reference, _, _ = strings.Cut(reference, "@")
	if at := strings.LastIndex(reference, ":"); at > strings.LastIndex(reference, "/") {
		return reference[:at], reference[at+1:]
	}
	return reference, ""
}
