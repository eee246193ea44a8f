// SPDX-License-Identifier: Apache-2.0

package imagetest

import (
	"archive/tar"
	"fmt"
	"strings"
	"time"
)

// Created is the date of all images made here.
var Created = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

// DpkgStatus is the database of dpkg of some packages, each as name, version, and source with its version or "".
func DpkgStatus(packages ...[3]string) string {
	var b strings.Builder
	for _, p := range packages {
		fmt.Fprintf(&b, "Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\n", p[0], p[1])
		if p[2] != "" {
			fmt.Fprintf(&b, "Source: %s\n", p[2])
		}
		fmt.Fprintf(&b, "Maintainer: Nobody <nobody@example.com>\nDescription: %s\n\n", p[0])
	}
	return b.String()
}

// Debian12 is the layer of a small Debian: its zlib, its glibc and its tar have vulnerabilities that are known.
func Debian12() Layer {
	return Layer{Compression: Gzip, Command: "ADD rootfs.tar.gz / # buildkit", Files: []File{
		{Name: "etc/", Type: tar.TypeDir, Mode: 0o755},
		{Name: "etc/os-release", Body: "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"},
		{Name: "etc/debian_version", Body: "12.1\n"},
		{Name: "var/lib/dpkg/status", Body: DpkgStatus(
			[3]string{"libc6", "2.36-9+deb12u4", "glibc"}, [3]string{"tar", "1.34+dfsg-1.2", ""}, [3]string{"zlib1g", "1:1.2.13.dfsg-1", "zlib"},
		)},
	}}
}

// Alpine318 is the layer of a small Alpine with an openssl that has vulnerabilities.
func Alpine318() Layer {
	return Layer{Compression: Gzip, Command: "ADD alpine-minirootfs.tar.gz / # buildkit", Files: []File{
		{Name: "etc/os-release", Body: "ID=alpine\nVERSION_ID=3.18.2\n"},
		{Name: "etc/alpine-release", Body: "3.18.2\n"},
		{Name: "lib/apk/db/installed", Body: "P:libcrypto3\nV:3.1.1-r1\nA:x86_64\nL:Apache-2.0\no:openssl\n\nP:musl\nV:1.2.4-r0\nA:x86_64\nL:MIT\no:musl\n\n"},
	}}
}

// Node is the layer of a JavaScript application with an old lodash and an old minimist.
func Node() Layer {
	return Layer{Compression: Gzip, Command: "COPY . /app # buildkit", Files: []File{
		{Name: "app/package-lock.json", Body: `{"name":"app","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"app","version":"1.0.0"},` +
			`"node_modules/lodash":{"version":"4.17.20"},"node_modules/minimist":{"version":"1.2.5"},"node_modules/mocha":{"version":"9.0.0","dev":true}}}`},
	}}
}

// Remove is a layer that takes files away.
func Remove(names ...string) Layer {
	l := Layer{Compression: Gzip, Command: "RUN rm"}
	for _, name := range names {
		directory, base := "", name
		if i := strings.LastIndex(name, "/"); i >= 0 {
			directory, base = name[:i+1], name[i+1:]
		}
		l.Files = append(l.Files, File{Name: directory + ".wh." + base})
	}
	return l
}

// Known makes the image that most tests look at: Debian 12 below a JavaScript application.
func Known() (Image, error) {
	return Build(Spec{Layers: []Layer{Debian12(), Node()}, Created: Created})
}
