import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

/// What `cove provider check` finds, and what it does not.
@Suite struct ConformanceKitTests {
    /// A provider in Python that keeps its word but in one thing, and the promise that it breaks.
    struct Fault: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Methods of a class that is `cove-memory`'s otherwise.
        let code: String
        let broken: String
    }

    static let faults = [
        Fault(
            testDescription: "it replaces what has the name",
            code: """
                def place(self, parameters):
                    return self.directory(parameters["directory"]), text(parameters["name"])
                """,
            broken: "create never replaces anything"
        ),
        Fault(
            testDescription: "it heeds no version",
            code: """
                def wanted(self, parameters):
                    parameters = dict(parameters)
                    if parameters.get("version"): parameters.pop("version")
                    return super().wanted(parameters)
                """,
            broken: "a change of an old version changes nothing"
        ),
        Fault(
            testDescription: "it goes by paths although it gives ids",
            code: """
                def path(self, reference):
                    return text(reference["path"])
                """,
            broken: "a stable id stays with its item, and what has its former name is not taken for it"
        ),
        Fault(
            testDescription: "it lists no more than ten",
            code: """
                def list(self, parameters, call):
                    return {"items": super().list(parameters, call)["items"][:10]}
                """,
            broken: "a directory lists all that is in it, each once"
        ),
        Fault(
            testDescription: "a look tells more bytes than there can be",
            code: """
                def lookup(self, parameters, call):
                    found = super().lookup(parameters, call)["item"]
                    return {"item": {**found, "size": (1 << 63) - 1}}
                """,
            broken: "a new file has the name, the size and the bytes that it was created with"
        ),
        Fault(
            testDescription: "a changed file is said to have more bytes than there can be",
            code: """
                def lookup(self, parameters, call):
                    found = super().lookup(parameters, call)["item"]
                    return {"item": {**found, "size": (1 << 63) - 1} if found.get("size") == 3 else found}
                """,
            broken: "a change of the current version is made, and gives another version"
        ),
        Fault(
            testDescription: "a range begins one byte late",
            code: """
                def fetch(self, parameters, call):
                    node = self.find(text(parameters["item"]["path"]))
                    if node.version != text(parameters["version"]): raise Failed("versionNoLongerAvailable")
                    start, end = parameters["start"], parameters["end"]
                    shift = 1 if start > 0 else 0
                    call.send(start, (node.content + b"x")[start + shift : end + shift])
                    return {}
                """,
            broken: "a range gives its bytes and no others"
        ),
        Fault(
            testDescription: "it gives whatever version there is",
            code: """
                def fetch(self, parameters, call):
                    node = self.find(text(parameters["item"]["path"]))
                    call.send(parameters["start"], node.content[parameters["start"] : parameters["end"]])
                    return {}
                """,
            broken: "bytes of another version are never given"
        ),
        Fault(
            testDescription: "a version is the size",
            code: """
                def item(self, name, node):
                    node.version = f"s{len(node.content)}" if node.kind == "file" else node.version
                    return super().item(name, node)
                """,
            broken: "a change of the current version is made, and gives another version"
        ),
        Fault(
            testDescription: "names are lower case",
            code: """
                def place(self, parameters):
                    directory, name = super().place(parameters)
                    return directory, name.lower()
                """,
            broken: "names are kept as they are, or refused"
        ),
        Fault(
            testDescription: "a directory goes with all that is in it",
            code: """
                def delete(self, parameters, call):
                    directory, name, node = self.wanted(parameters)
                    del directory.children[name]
                """,
            broken: "delete deletes what is meant and nothing else"
        ),
        Fault(
            testDescription: "a move leaves what it moves",
            code: """
                def move(self, parameters, call):
                    source, former, node = self.wanted(parameters)
                    directory, name = self.place(parameters)
                    directory.children[name] = node
                    return {"item": self.item(name, node)}
                """,
            broken: "a file moves with its bytes, and leaves its name"
        ),
        Fault(
            testDescription: "it knows no hidden names",
            code: """
                def list(self, parameters, call):
                    result = super().list(parameters, call)
                    result["items"] = [item for item in result["items"] if not item["name"].startswith(".cove-")]
                    return result
                """,
            broken: "what makes room under a hidden name is listed, found and moved as anything else"
        ),
        Fault(
            testDescription: "dates are those of the upload",
            code: """
                def create(self, parameters, call):
                    parameters["metadata"] = {"modified": 10**18}
                    return super().create(parameters, call)
                """,
            broken: "the date that a file is given stays"
        ),
        Fault(
            testDescription: "calls share one content",
            code: """
                def content(self, parameters, call):
                    import time
                    self.last = super().content(parameters, call)
                    time.sleep(0.02)
                    return self.last
                """,
            broken: "calls side by side don't disturb each other"
        ),
        Fault(
            testDescription: "an upload that was called off stays",
            code: """
                def content(self, parameters, call):
                    try:
                        return super().content(parameters, call)
                    except Failed:
                        self.directory(parameters["directory"]).children["part"] = type(self.root)("file")
                        raise
                """,
            broken: "an upload that is called off leaves nothing behind"
        ),
        Fault(
            testDescription: "there are ever more changes",
            code: """
                def changes(self, parameters, call):
                    self.asked = getattr(self, "asked", 0) + 1
                    return {"events": [], "anchor": str(self.asked), "more": "anchor" in parameters}
                """,
            broken: "changes begin with an anchor and end, and nobody's anchor has expired"
        ),
        Fault(
            testDescription: "any anchor is one",
            code: """
                def changes(self, parameters, call):
                    return {"events": [], "anchor": "now"}
                """,
            broken: "changes begin with an anchor and end, and nobody's anchor has expired"
        ),
        Fault(
            testDescription: "it tells of no change, and says that it does",
            code: """
                def hello(self, parameters, call):
                    return {**super().hello(parameters, call), "signals": True}
                """,
            broken: "who tells of changes by itself tells each one, or that the anchor has expired"
        ),
        Fault(
            testDescription: "all files of a folder have one picture",
            code: """
                def children(self, parameters):
                    path = text(parameters["item"]["path"]).rpartition("/")[0]
                    return list(self.find(path).children.values())
                def setThumbnail(self, parameters, call):
                    picture = call.picture()
                    for node in self.children(parameters): node.picture = picture or b""
                def thumbnail(self, parameters, call):
                    call.send(0, self.children(parameters)[0].picture)
                """,
            broken: "a picture that a file is given comes back, and of no other file"
        ),
        Fault(
            testDescription: "no file is said to have a picture",
            code: """
                def thumbnails(self, parameters, call):
                    return {"names": []}
                """,
            broken: "a picture that a file is given comes back, and of no other file"
        ),
        Fault(
            testDescription: "a picture is listed as a file",
            code: """
                def setThumbnail(self, parameters, call):
                    path = text(parameters["item"]["path"])
                    super().setThumbnail(parameters, call)
                    self.find(path.rpartition("/")[0]).children["f.png"] = type(self.root)("file")
                """,
            broken: "a picture that a file is given comes back, and of no other file"
        ),
        Fault(
            testDescription: "a picture outlives its version",
            code: """
                def modify(self, parameters, call):
                    picture = self.find(text(parameters["item"]["path"])).picture
                    result = super().modify(parameters, call)
                    self.find(text(parameters["item"]["path"])).picture = picture
                    return result
                """,
            broken: "a picture of another version is none"
        ),
        Fault(
            testDescription: "a picture is dropped whatever its version",
            code: """
                def setThumbnail(self, parameters, call):
                    node = self.find(text(parameters["item"]["path"]))
                    node.picture = call.picture() or b""
                """,
            broken: "a picture is dropped, once or twice, and not that of another version"
        ),
        Fault(
            testDescription: "a picture is not dropped",
            code: """
                def setThumbnail(self, parameters, call):
                    if "size" in parameters: super().setThumbnail(parameters, call)
                """,
            broken: "a picture is dropped, once or twice, and not that of another version"
        ),
    ]

    private func outcomes(of provider: any Provider) async throws -> [Conformance.Outcome] {
        try await provider.start()
        var outcomes: [Conformance.Outcome] = []
        let passes = try await Conformance(provider).run { outcomes.append($0) }
        #expect(passes == outcomes.allSatisfy { $0.failure == nil })
        #expect(try await provider.names().isEmpty, "something is left of the checks")
        await provider.stop()
        return outcomes
    }

    private func memory(_ fault: String, in folder: TemporaryDirectory) throws -> any Provider {
        let methods = fault.split(separator: "\n", omittingEmptySubsequences: false).map { "    \($0)" }
        return try ServedSource.python(
            """
            \(providerModule("cove-memory"))
            from cove_provider import Failed, serve, text
            class Faulty(module.Memory):
                pass
            \(methods.joined(separator: "\n"))
            serve(Faulty())
            """,
            at: folder.appending("provider")
        )
    }

    @Test(arguments: SourceKind.all)
    func `a provider that Cove comes with passes`(_ kind: SourceKind) async throws {
        let source = try await kind.open()
        for outcome in try await outcomes(of: source.provider()) {
            #expect(outcome.failure == nil, "\(outcome.promise): \(outcome.calls)")
        }
        withExtendedLifetime(source) {}
    }

    @Test func `the example in memory passes, and skips nothing`() async throws {
        let folder = try TemporaryDirectory()
        let outcomes = try await outcomes(of: memory("", in: folder))
        #expect(outcomes.count > 15)
        for outcome in outcomes {
            #expect(outcome.failure == nil && !outcome.isSkipped, "\(outcome.promise): \(outcome.calls)")
        }
    }

    @Test func `a provider that lists what is elsewhere is not trusted with a clean-up`() async throws {
        let folder = try TemporaryDirectory()
        let fault = """
            def list(self, parameters, call):
                return super().list({**parameters, "directory": {"path": ""}}, call)
            """
        let provider = try memory(fault, in: folder)
        try await provider.start()
        _ = try await provider.make("document", "text")
        let error = await #expect(throws: ProviderError.self) {
            _ = try await Conformance(provider).run { _ in Issue.record("a check was run") }
        }
        #expect("\(String(describing: error))".contains("in a folder that was just made"))
        #expect(try await provider.text("document") == "text")
        await provider.stop()
    }

    @Test(arguments: faults)
    func `a fault is found and named`(_ fault: Fault) async throws {
        let folder = try TemporaryDirectory()
        let failed = try await outcomes(of: memory(fault.code, in: folder)).filter { $0.failure != nil }
        #expect(failed.contains { $0.promise == fault.broken }, "\(failed.map(\.promise))")
        #expect(failed.allSatisfy { !$0.calls.isEmpty })
    }
}
