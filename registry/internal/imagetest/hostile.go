// SPDX-License-Identifier: Apache-2.0

package imagetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
)

// Hostile is an image that means harm, or is broken.
type Hostile struct {
	Name string
	Spec Spec
	// Readable: an adapter may make an SBOM of the image. Else it has to answer with an error that is permanent.
	Readable bool
	// Packages that an SBOM of a readable image has at least, where the adapter knows the JavaScript application.
	Application bool
}

const (
	manyFiles  = 100_000
	longPath   = 4096
	bombSize   = 200 << 20
	cutArchive = 700
)

// Hostiles are the images that an adapter must survive.
func Hostiles() ([]Hostile, error) {
	node, err := pack(Node().Files)
	if err != nil {
		return nil, err
	}
	whole, err := compress(node, Gzip)
	if err != nil {
		return nil, err
	}
	bomb, err := compress(bytes.Repeat([]byte{0}, bombSize), Gzip)
	if err != nil {
		return nil, err
	}
	var many []File
	for i := range manyFiles {
		many = append(many, File{Name: fmt.Sprintf("files/%d/%d", i/1000, i)})
	}
	one := func(name string, readable, application bool, layers ...Layer) Hostile {
		return Hostile{Name: name, Spec: Spec{Layers: layers, Created: Created}, Readable: readable, Application: application}
	}
	return []Hostile{
		one("no layers", true, false),
		one("an empty layer", true, false, Layer{Compression: Gzip}),
		one("whiteouts of what is not there", true, true, Node(), Remove("etc/passwd", "app/none", "../../etc/shadow")),
		one("links out of the tree", true, true, Node(), Layer{Compression: Gzip, Files: []File{
			{Name: "app/hard", Type: tar.TypeLink, Link: "../../../../etc/passwd"},
			{Name: "app/soft", Type: tar.TypeSymlink, Link: "/etc/passwd"},
			{Name: "../../outside", Body: "x"},
			{Name: "/absolute", Body: "x"},
			{Name: "var/lib/dpkg/status", Type: tar.TypeSymlink, Link: "/etc/passwd"},
		}}),
		one("device files", true, true, Node(), Layer{Compression: Gzip, Files: []File{
			{Name: "dev/sda", Type: tar.TypeBlock},
			{Name: "dev/mem", Type: tar.TypeChar},
			{Name: "run/fifo", Type: tar.TypeFifo},
			{Name: "lib/apk/db/installed", Type: tar.TypeFifo},
		}}),
		one("100,000 files", true, true, Node(), Layer{Compression: Gzip, Files: many}),
		one("a path of 4,096 bytes", true, true, Node(), Layer{Compression: Gzip, Files: []File{{Name: strings.Repeat("d/", longPath/2-1) + "ff", Body: "x"}}}),
		one("names that are no UTF-8", true, true, Node(), Layer{Compression: Gzip, Files: []File{
			{Name: "app/\xff\xfe\x80", Body: "x"}, {Name: "app/\x1b[31mred", Body: "x"}, {Name: "app/\u202egpj.exe", Body: "x"},
		}}),
		one("a gzip bomb", false, false, Layer{Blob: bomb, Compression: Gzip, Archive: []byte{}}),
		one("an archive that ends early", false, false, Layer{Archive: node[:cutArchive], Compression: Gzip}),
		one("a blob that ends early", false, false, Layer{Blob: whole[:len(whole)/2], Archive: node, Compression: Gzip}),
		one("zstd", true, true, Layer{Files: Node().Files, Compression: Zstd}),
		one("a diffID of other content", false, false, Layer{Files: Node().Files, Compression: Gzip, DiffID: Digest([]byte("base image"))}),
		one("garbage", false, false, Layer{Archive: []byte(strings.Repeat("garbage ", 1000)), Compression: Gzip}),
	}, nil
}
