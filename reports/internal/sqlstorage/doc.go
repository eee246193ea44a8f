// SPDX-License-Identifier: Apache-2.0

// Package sqlstorage is the storage of one kind of objects for k8s.io/apiserver: [storage.Interface] over package mvcc.
//
//	registry ─► Create, GuaranteedUpdate, Delete ─► encode, take the payload out ─► mvcc.Write (compare-and-swap)
//	         ─► Get, GetList ─► mvcc.Get, mvcc.Range ─► put the payload back, decode, select
//	         ─► Watch ─► first states in pages, then a cursor ─► decode, select, with transitions
//
// What it decides:
//
//   - There is no Cacher in front. k8s.io/apiserver's Cacher was tried over a prototype: it changed no answer, held every
//     object decoded, results included, had to load all of them before the server was ready, believed WatchList only of
//     etcd, and needed progress requests, so an event hub, for reads after writes. The hub of package mvcc and reads in SQL
//     pass the same tests with memory that does not depend on the data. docs/decisions tells more.
//   - The large member of an object (results, a document) is stored apart, as a blob. Clients do not see that. Tables and
//     metadata are made of the rest: see [WithHeadOnly].
//   - An update that changes no byte of what is stored writes nothing.
//   - Selectors narrow what SQL reads where they can; what is returned is decided by the decoded object.
//   - A page examines at most 10,000 rows and then ends with a continue token, so that a selector which nothing matches
//     cannot hold a request.
//   - Keys are ASCII. What is not, and names that no object can have, is not there, without asking the database.
//   - An object whose payload is damaged is listed without it and with an annotation, can be deleted, and is an error for
//     those who get or change it.
package sqlstorage
