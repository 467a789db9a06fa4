// A source that is kept in memory, and gone with its process: where a provider of your own begins.
//
//	go build -o NAME NAME.go
//	cove provider check exec:./NAME
//	cove mount exec:./NAME ~/scratch
//
// Each case of answer answers one call. Put your cloud's requests where this one looks into its tree, and run the check again
// and again. `cove help provider new` says where the protocol is described.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

type object = map[string]any

// failed is what a call is answered with when it can't be done.
type failed struct {
	kind, message string
	item          object
}

func (f failed) Error() string { return f.kind }

// text gives the bytes of a header: a string, or base64 for what is no UTF-8.
func text(value any) string {
	switch known := value.(type) {
	case string:
		return known
	case object:
		encoded, _ := known["base64"].(string)
		bytes, _ := base64.StdEncoding.DecodeString(encoded)
		return string(bytes)
	}
	return ""
}

func value(bytes string) any {
	if utf8.ValidString(bytes) {
		return bytes
	}
	return object{"base64": base64.StdEncoding.EncodeToString([]byte(bytes))}
}

func number(value any) int {
	known, _ := value.(json.Number)
	result, _ := known.Int64()
	return int(result)
}

func member(value any, name string) any {
	known, _ := value.(object)
	return known[name]
}

// The tree.

var counter int

func next() int {
	counter++
	return counter
}

// node is a file or a directory.
type node struct {
	id, kind, version string
	described         string
	children          map[string]*node
	content           []byte
	metadata          object
}

func newNode(kind string, content []byte, metadata any) *node {
	made := &node{id: fmt.Sprintf("n%d", next()), kind: kind, children: map[string]*node{}}
	made.replace(content, metadata)
	return made
}

// replace gives a file another content, which is another version.
func (n *node) replace(content []byte, metadata any) {
	n.content = content
	n.version = fmt.Sprintf("v%d", next())
	n.metadata, _ = metadata.(object)
	if n.metadata == nil {
		n.metadata = object{}
	}
	n.described = n.version
}

// path gives the path from here of the node with an id.
func (n *node) path(wanted string) (string, bool) {
	for name, child := range n.children {
		if child.id == wanted {
			return name, true
		}
		if below, isThere := child.path(wanted); isThere {
			return name + "/" + below, true
		}
	}
	return "", false
}

func (n *node) item(name string) object {
	item := object{"id": n.id, "name": value(name), "kind": n.kind, "metadata": n.metadata}
	if n.kind == "file" {
		item["size"] = len(n.content)
		item["contentVersion"] = n.version
		item["metadataVersion"] = n.described
	}
	return item
}

const pageSize = 500

var (
	root = newNode("directory", nil, nil)
	// Nobody tells of changes: Cove lists what it shows again and again. The anchor of another process has expired.
	anchor = fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
)

// part is a piece of a file, whose bytes go before the result.
type part struct {
	data   []byte
	offset int
	isEnd  bool
	room   int
}

// answer gives the result of a call, or the bytes that go before it.
func answer(call string, parameters object, content []byte) (object, *part, error) {
	switch call {
	case "hello":
		return object{"version": 1, "name": "memory", "capabilities": object{
			"ranges": true, "conditionalWrites": true, "modificationTimes": true, "serverSideCopy": true,
			"stableIDs": true, "persistentIdentifiers": true, "parallelChanges": 8,
		}}, nil, nil
	case "list":
		result, err := list(parameters)
		return result, nil, err
	case "lookup":
		directory, err := directoryOf(parameters["directory"])
		if err != nil {
			return nil, nil, err
		}
		name := text(parameters["name"])
		found := directory.children[name]
		if found == nil {
			return nil, nil, failed{kind: "noSuchItem"}
		}
		return object{"item": found.item(name)}, nil, nil
	case "changes":
		if known, isThere := parameters["anchor"]; isThere && text(known) != anchor {
			return nil, nil, failed{kind: "anchorExpired"}
		}
		return object{"events": []any{}, "anchor": anchor}, nil, nil
	case "fetch":
		data, err := fetch(parameters)
		return nil, data, err
	case "quota":
		return object{}, nil, nil
	case "persistentIdentifier":
		found, err := itemOf(parameters["item"])
		if err != nil {
			return nil, nil, err
		}
		return object{"identifier": found.id}, nil, nil
	case "itemForPersistentIdentifier":
		path, isThere := root.path(text(parameters["identifier"]))
		if !isThere {
			return nil, nil, failed{kind: "noSuchItem"}
		}
		return object{"path": value(path)}, nil, nil
	case "create":
		kind, _ := parameters["kind"].(string)
		if kind != "file" && kind != "directory" {
			return nil, nil, failed{kind: "unsupported"}
		}
		directory, name, err := place(parameters)
		if err != nil {
			return nil, nil, err
		}
		directory.children[name] = newNode(kind, content, parameters["metadata"])
		return object{"item": directory.children[name].item(name)}, nil, nil
	case "modify", "delete", "move", "copy":
		result, err := change(call, parameters, content)
		return result, nil, err
	}
	return nil, nil, failed{kind: "unsupported", message: "this provider has no " + call}
}

// change does what needs the version of the item that the caller has seen.
func change(call string, parameters object, content []byte) (object, error) {
	source, former, found, err := wanted(parameters)
	if err != nil {
		return nil, err
	}
	switch call {
	case "modify":
		if content != nil {
			found.replace(content, parameters["metadata"])
		} else if metadata, isThere := parameters["metadata"].(object); isThere {
			for name, value := range metadata {
				found.metadata[name] = value
			}
			found.described = fmt.Sprintf("m%d", next())
		}
		return object{"item": found.item(former)}, nil
	case "delete":
		if len(found.children) > 0 {
			return nil, failed{kind: "directoryNotEmpty"}
		}
		delete(source.children, former)
		return object{}, nil
	}
	directory, name, err := place(parameters)
	if err != nil {
		return nil, err
	}
	if call == "copy" {
		metadata := object{}
		for name, value := range found.metadata {
			metadata[name] = value
		}
		found = newNode("file", found.content, metadata)
	} else {
		if isInside(found, directory) {
			return nil, failed{kind: "notPermitted", message: "a folder does not go into itself"}
		}
		delete(source.children, former)
	}
	directory.children[name] = found
	return object{"item": found.item(name)}, nil
}

// isInside tells whether a directory is another one, or somewhere below it.
func isInside(top, directory *node) bool {
	if top == directory {
		return true
	}
	for _, child := range top.children {
		if isInside(child, directory) {
			return true
		}
	}
	return false
}

// Looking.

func find(path string) (*node, error) {
	found := root
	for _, name := range strings.Split(path, "/") {
		if name == "" {
			continue
		}
		if found = found.children[name]; found == nil {
			return nil, failed{kind: "noSuchItem"}
		}
	}
	return found, nil
}

// pathOf tells where an item is: by its identifier, where that is given, for another one may have its path by now.
func pathOf(reference any) (string, error) {
	path := text(member(reference, "path"))
	id, isThere := member(reference, "id").(string)
	if path == "" || !isThere {
		return path, nil
	}
	if found, isThere := root.path(id); isThere {
		return found, nil
	}
	return "", failed{kind: "noSuchItem"}
}

func itemOf(reference any) (*node, error) {
	path, err := pathOf(reference)
	if err != nil {
		return nil, err
	}
	return find(path)
}

func directoryOf(reference any) (*node, error) {
	found, err := itemOf(reference)
	if err == nil && found.kind != "directory" {
		return nil, failed{kind: "noSuchItem"}
	}
	return found, err
}

// list gives a page, which begins behind a name, in their order: what comes or goes meanwhile moves nothing out of it.
func list(parameters object) (object, error) {
	directory, err := directoryOf(parameters["directory"])
	if err != nil {
		return nil, err
	}
	start, hasStart := "", false
	if page, isThere := parameters["page"]; isThere {
		start, hasStart = strings.TrimPrefix(text(page), "after:"), true
	}
	names := []string{}
	for name := range directory.children {
		if !hasStart || name > start {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	items := []any{}
	for _, name := range names {
		if len(items) == pageSize {
			return object{"items": items, "next": value("after:" + names[pageSize-1])}, nil
		}
		items = append(items, directory.children[name].item(name))
	}
	return object{"items": items}, nil
}

func fetch(parameters object) (*part, error) {
	found, err := itemOf(parameters["item"])
	if err != nil {
		return nil, err
	}
	if text(parameters["version"]) != found.version {
		return nil, failed{kind: "versionNoLongerAvailable"}
	}
	start, end := number(parameters["start"]), number(parameters["end"])
	last := end
	if last > len(found.content) {
		last = len(found.content)
	}
	result := &part{offset: start, isEnd: end > last}
	if start < last {
		result.data = found.content[start:last]
	}
	return result, nil
}

// Changing.

// place gives the directory and the name that something is to get, which must be free.
func place(parameters object) (*node, string, error) {
	directory, err := directoryOf(parameters["directory"])
	if err != nil {
		return nil, "", err
	}
	name := text(parameters["name"])
	// What makes room for a moment is listed, found and moved as anything else.
	if name == ".cove" || strings.HasPrefix(name, ".cove-") && !strings.HasPrefix(name, ".cove-moving-") {
		return nil, "", failed{kind: "notPermitted", message: "Cove keeps this name for itself"}
	}
	if occupant := directory.children[name]; occupant != nil {
		return nil, "", failed{kind: "filenameCollision", item: occupant.item(name)}
	}
	return directory, name, nil
}

// wanted gives the directory and the name of what is to be changed, if that is the version that the caller has seen.
func wanted(parameters object) (*node, string, *node, error) {
	path, err := pathOf(parameters["item"])
	if err != nil {
		return nil, "", nil, err
	}
	slash := strings.LastIndex(path, "/")
	name := path[slash+1:]
	if slash < 0 {
		slash = 0
	}
	directory, err := find(path[:slash])
	if err != nil {
		return nil, "", nil, err
	}
	mustBeFile, _ := member(parameters["item"], "isFile").(bool)
	found := directory.children[name]
	if found == nil || mustBeFile && found.kind != "file" {
		return nil, "", nil, failed{kind: "noSuchItem"}
	}
	if given, isThere := parameters["version"]; isThere {
		version := text(given)
		if version == "" && found.kind != "directory" || version != "" && version != found.version {
			return nil, "", nil, failed{kind: "conflict", item: found.item(name)}
		}
	}
	return directory, name, found, nil
}

// The protocol: calls are answered one after the other; the bytes of files go to and fro meanwhile, as the other side takes them.

const (
	window = 4 << 20
	piece  = 256 << 10
)

// upload is a call whose content arrives.
type upload struct {
	call       string
	parameters object
	content    []byte
}

var (
	output   *bufio.Writer
	incoming = map[int]*upload{}
	outgoing = map[int]*part{}
)

func send(header object, body []byte) {
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	var lengths [8]byte
	binary.BigEndian.PutUint32(lengths[:4], uint32(len(text)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(body)))
	output.Write(lengths[:])
	output.Write(text)
	output.Write(body)
}

func receive(input io.Reader) (object, []byte, error) {
	var lengths [8]byte
	if _, err := io.ReadFull(input, lengths[:]); err != nil {
		return nil, nil, err
	}
	text := make([]byte, binary.BigEndian.Uint32(lengths[:4]))
	body := make([]byte, binary.BigEndian.Uint32(lengths[4:]))
	if _, err := io.ReadFull(input, text); err != nil {
		return nil, nil, err
	}
	if _, err := io.ReadFull(input, body); err != nil {
		return nil, nil, err
	}
	header := object{}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	return header, body, decoder.Decode(&header)
}

func take(header object, body []byte) {
	if cancelled, isThere := header["cancel"]; isThere {
		id := number(cancelled)
		if incoming[id] != nil || outgoing[id] != nil {
			delete(incoming, id)
			delete(outgoing, id)
			send(object{"id": id, "error": object{"kind": "cancelled", "message": ""}}, nil)
		}
		return
	}
	if _, isThere := header["id"]; !isThere {
		return
	}
	id := number(header["id"])
	if call, isCall := header["call"].(string); isCall {
		parameters, _ := header["parameters"].(object)
		_, hasSize := parameters["size"]
		if hasSize && (call == "create" || call == "modify") {
			incoming[id] = &upload{call, parameters, []byte{}}
		} else {
			reply(id, call, parameters, nil)
		}
	} else if credit, isThere := header["credit"]; isThere {
		if left := outgoing[id]; left != nil {
			left.room += number(credit)
			pump(id, left)
		}
	} else if arrived := incoming[id]; arrived != nil {
		if _, isEnd := header["end"]; isEnd {
			delete(incoming, id)
			reply(id, arrived.call, arrived.parameters, arrived.content)
		} else {
			arrived.content = append(arrived.content, body...)
			send(object{"id": id, "credit": len(body)}, nil)
		}
	}
}

func reply(id int, call string, parameters object, content []byte) {
	var result object
	var data *part
	var err error = failed{kind: "failed", message: "the content is not as long as it was said to be"}
	if content == nil || len(content) == number(parameters["size"]) {
		result, data, err = answer(call, parameters, content)
	}
	if err != nil {
		failure := err.(failed)
		told := object{"kind": failure.kind, "message": failure.message}
		if failure.item != nil {
			told["item"] = failure.item
		}
		send(object{"id": id, "error": told}, nil)
	} else if data != nil {
		data.room = window
		outgoing[id] = data
		pump(id, data)
	} else {
		send(object{"id": id, "result": result}, nil)
	}
}

// pump sends as much of a file as Cove takes now.
func pump(id int, left *part) {
	for left.room > 0 && len(left.data) > 0 {
		count := piece
		if count > left.room {
			count = left.room
		}
		if count > len(left.data) {
			count = len(left.data)
		}
		send(object{"id": id, "offset": left.offset}, left.data[:count])
		left.data, left.offset, left.room = left.data[count:], left.offset+count, left.room-count
	}
	if len(left.data) > 0 {
		return
	}
	delete(outgoing, id)
	result := object{}
	if left.isEnd {
		result["atEnd"] = true
	}
	send(object{"id": id, "result": result}, nil)
}

func main() {
	output = bufio.NewWriter(os.Stdout)
	// What is printed by accident is no message.
	os.Stdout = os.Stderr
	input := bufio.NewReader(os.Stdin)
	for {
		header, body, err := receive(input)
		if err != nil || header["call"] == "stop" {
			return
		}
		take(header, body)
		if output.Flush() != nil {
			return
		}
	}
}
