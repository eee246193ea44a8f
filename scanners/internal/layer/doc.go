// SPDX-License-Identifier: Apache-2.0

// Package layer decides how files become a layer of an image:
//
//	files of packages, programs, recipes ─► Tree (names in memory, contents in one spool file) ─► sorted tar.gz
//
// A tree never touches the machine's own file system under a name from outside: it is a map. Names are taken
// apart as a container would see them, through the symbolic links that are already in the tree, so that a
// package which still says /lib lands below /usr/lib. A name or link that leads out of the root is refused.
//
// The same files give the same bytes, whatever order they came in: entries are sorted, have one time, no names
// of users, and no setuid or setgid bit, since scan containers could not use it.
package layer
