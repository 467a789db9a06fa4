import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

/// What `cove provider check` finds at sources that can't be written to, by reading alone.
@Suite struct ReadOnlyConformanceTests {
    private typealias Fault = ConformanceKitTests.Fault

    private static let faults = [
        Fault(
            testDescription: "it lists a name twice",
            code: """
                def list(self, parameters, call):
                    listing = super().list(parameters, call)
                    return {**listing, "items": listing["items"] + listing["items"][:1]}
                """,
            broken: "a directory lists all that is in it, each once, and the same each time"
        ),
        Fault(
            testDescription: "it lists less the second time",
            code: """
                asked = 0
                def list(self, parameters, call):
                    listing = super().list(parameters, call)
                    self.asked += 1
                    return {**listing, "items": listing["items"][self.asked % 2:]}
                """,
            broken: "a directory lists all that is in it, each once, and the same each time"
        ),
        Fault(
            testDescription: "a look tells another size",
            code: """
                def lookup(self, parameters, call):
                    found = super().lookup(parameters, call)["item"]
                    return {"item": {**found, "size": found.get("size", 0) + 1}}
                """,
            broken: "a look at a name tells what the listing does"
        ),
        Fault(
            testDescription: "it finds everything",
            code: """
                def lookup(self, parameters, call):
                    try:
                        return super().lookup(parameters, call)
                    except Failed:
                        return {"item": self.item("none", module.Node("file"))}
                """,
            broken: "what is not there is not found"
        ),
        Fault(
            testDescription: "its bytes change",
            code: """
                def fetch(self, parameters, call):
                    self.asked = getattr(self, "asked", 0) + 1
                    data = bytes([self.asked % 251]) * (parameters["end"] - parameters["start"])
                    call.send(parameters["start"], data)
                """,
            broken: "a file has the bytes that it says, the same ones each time"
        ),
        Fault(
            testDescription: "a range begins too early",
            code: """
                def fetch(self, parameters, call):
                    node, start, end = self.find(text(parameters["item"]["path"])), parameters["start"], parameters["end"]
                    call.send(start, node.content[max(0, start - 1):end - (start > 0)])
                """,
            broken: "a range gives its bytes and no others"
        ),
        Fault(
            testDescription: "it heeds no version",
            code: """
                def fetch(self, parameters, call):
                    version = self.find(text(parameters["item"]["path"])).version
                    return super().fetch({**parameters, "version": version}, call)
                """,
            broken: "bytes of another version are never given"
        ),
        Fault(
            testDescription: "it mixes up what is asked at the same time",
            code: """
                underway = 0
                def fetch(self, parameters, call):
                    self.underway += 1
                    time.sleep(0.05)
                    is_alone = self.underway == 1
                    self.underway -= 1
                    if is_alone:
                        return super().fetch(parameters, call)
                    call.send(parameters["start"], bytes(parameters["end"] - parameters["start"]))
                """,
            broken: "calls at the same time get their own answers"
        ),
        Fault(
            testDescription: "it makes a directory all the same",
            code: """
                def create(self, parameters, call):
                    return module.Memory.create(self, parameters, call)
                """,
            broken: "what can't be written to takes nothing"
        ),
        Fault(
            testDescription: "identifiers lead elsewhere",
            code: """
                def itemForPersistentIdentifier(self, parameters, call):
                    return {"path": "small"}
                """,
            broken: "a persistent identifier leads to its item, and one of nothing nowhere"
        ),
    ]

    /// What the checks find at the provider in memory, when that has some files and can't be written to.
    private func outcomes(_ fault: String, isEmpty: Bool = false) async throws -> [Conformance.Outcome] {
        let folder = try TemporaryDirectory()
        let methods = fault.split(separator: "\n", omittingEmptySubsequences: false).map { "    \($0)" }
        let provider = try ServedSource.python(
            """
            \(providerModule("cove-memory"))
            import random, time
            from cove_provider import Failed, serve, text
            class ReadOnly(module.Memory):
                def hello(self, parameters, call):
                    answer = super().hello(parameters, call)
                    if not \(isEmpty ? "True" : "False"):
                        self.fill(self.root, 0)
                    return {**answer, "capabilities": {**answer["capabilities"], "readOnly": True}}
                def fill(self, node, depth):
                    for name, size in [("small", 1), ("other", 5000), ("large", 1500000), ("empty", 0)]:
                        content = random.Random(size + depth).randbytes(size)
                        node.children[name] = module.Node("file", content)
                    if depth < 2:
                        inner = node.children["folder é"] = module.Node("directory")
                        self.fill(inner, depth + 1)
                def create(self, parameters, call):
                    raise Failed("notPermitted")
            class Faulty(ReadOnly):
                pass
            \(methods.joined(separator: "\n"))
            serve(Faulty())
            """,
            at: folder.appending("provider")
        )
        try await provider.start()
        var outcomes: [Conformance.Outcome] = []
        let passes: Bool
        do {
            passes = try await Conformance(provider).run { outcomes.append($0) }
        } catch {
            await provider.stop()
            throw error
        }
        #expect(passes == outcomes.allSatisfy { $0.failure == nil })
        await provider.stop()
        return outcomes
    }

    @Test func `what keeps its word passes, and skips nothing`() async throws {
        let outcomes = try await outcomes("")
        #expect(outcomes.count == 10)
        for outcome in outcomes {
            #expect(outcome.failure == nil && !outcome.isSkipped, "\(outcome.promise): \(outcome.calls)")
        }
    }

    @Test func `an archive passes`() async throws {
        let folder = try TemporaryDirectory()
        let archive = folder.appending("a.zip")
        let make = """
            import random, sys, zipfile
            with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
                for name, size in [("a", 1), ("d/b é", 70000), ("d/e/c", 3000000), ("d/empty", 0)]:
                    archive.writestr(name, random.Random(size).randbytes(size // 2) + bytes(size - size // 2))
            """
        try Command.run("python3", ["-c", make, archive])
        let program = FileManager.default.currentDirectoryPath + "/Providers/cove-zip"
        let provider = try ProviderFactory.make(source: "exec:\(program)?path=\(archive)")
        try await provider.start()
        var outcomes: [Conformance.Outcome] = []
        #expect(try await Conformance(provider).run { outcomes.append($0) })
        #expect(outcomes.filter { !$0.isSkipped }.count == 9, "\(outcomes)")
        await provider.stop()
    }

    @Test func `where there is no file nothing is tried`() async throws {
        let error = await #expect(throws: ProviderError.self) { _ = try await outcomes("", isEmpty: true) }
        #expect("\(String(describing: error))".contains("no file was found"))
    }

    @Test(arguments: faults)
    private func `a fault is found and named`(_ fault: Fault) async throws {
        let failed = try await outcomes(fault.code).filter { $0.failure != nil }
        #expect(failed.contains { $0.promise == fault.broken }, "\(failed.map(\.promise))")
        #expect(failed.allSatisfy { !$0.calls.isEmpty })
    }
}
