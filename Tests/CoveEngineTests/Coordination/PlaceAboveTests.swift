import CoveClaims
import CoveCore
import CoveTestSupport
import Glibc
import Testing

@testable import CoveEngine

/// What comes to the names of directories that claimed items are in.
@Suite struct PlaceAboveTests {
    /// How something else comes to be at a name that nothing, or a file, had.
    enum Way: String, CaseIterable, CustomTestStringConvertible {
        case link, linkOfLink, renamedLink, linkForFile, exchangedLink, exchangedFile, directory, directoryWithLink
        var testDescription: String { rawValue }
    }

    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }
    private func path(_ string: String) -> RemotePath { RemotePath(unchecked: text(string)) }

    /// A session of no program above this one.
    private func stranger(_ engine: Engine) throws -> Int {
        try engine.attend(process: .max, resuming: nil) { _ in true }.session
    }

    private func claim(_ engine: Engine, _ path: String, session: Int) async throws -> String {
        let intent = CoordinationInterface.Intent(writing: PathParameter(self.path(path)))
        return try await engine.claim(CoordinationInterface.ClaimRequest(intents: [intent]), session: session).claim
    }

    private func paths(_ engine: Engine, _ claim: String) -> [String] {
        let number = Token.number(claim, "c") ?? 0
        return engine.coordinator.coordination.act { state, _ in
            state.table.paths(of: number).map(\.description).sorted()
        }
    }

    private func link(_ tree: EngineTree, _ name: String, _ target: String) throws {
        let (parent, name) = try tree.split(name)
        _ = try tree.engine.makeSymbolicLink(parent, name, target: text(target), tree.caller)
    }

    /// True when a call of this program does not go on at once.
    private func waits(_ engine: Engine, _ use: PlainUse) throws -> Bool {
        let caller = Caller(thread: getpid(), user: 0, group: 0)
        guard let pending = try engine.plainClaim(use, caller) else { return false }
        let isWaiting = !pending.isDone
        pending.whenDone { if case .success(let claim) = $0 { engine.end(claim) } }
        pending.cancel()
        return isWaiting
    }

    @Test(arguments: Way.allCases)
    func `what a claimed path leads to by a link or a directory above is its claim's`(_ way: Way) async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.makeDirectory("real")
            try tree.write("real/F", text("x"))
            try link(tree, "T", "real")
            switch way {
            case .linkForFile, .exchangedLink, .exchangedFile: try tree.write("new", text("in the way"))
            case .link, .linkOfLink, .renamedLink, .directory, .directoryWithLink: break
            }
            let session = try stranger(engine)
            let held = way == .directoryWithLink ? "new/l/F" : "new/F"
            let claim = try await claim(engine, held, session: session)
            let file = try tree.resolve("real/F")
            #expect(try !waits(engine, .open(file, flags: O_RDONLY)))
            switch way {
            case .link: try link(tree, "new", "real")
            case .linkOfLink: _ = try engine.link(try tree.resolve("T"), .root, text("new"), tree.caller)
            case .renamedLink, .linkForFile: try tree.rename("T", "new")
            case .exchangedLink: try tree.exchange("T", "new")
            case .exchangedFile: try tree.exchange("new", "T")
            case .directory: try tree.rename("real", "new")
            case .directoryWithLink:
                try tree.makeDirectory("D")
                try link(tree, "D/l", "../real")
                try tree.rename("D", "new")
            }
            #expect(try waits(engine, .open(file, flags: O_RDONLY)))
            #expect(paths(engine, claim) == (way == .directory ? ["new/F"] : [held, "real/F"]))
            engine.endSession(session)
            #expect(try !waits(engine, .open(file, flags: O_RDONLY)))
            await account.stop()
        }
    }

    @Test func `what waits below the name of a link, and who presents there, goes to what it leads to`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.makeDirectory("real")
            try tree.write("real/F", text("x"))
            let session = try stranger(engine)
            _ = try engine.addPresenter(session: session, at: path("new/F"), implements: [], observes: [])
            let holder = try await claim(engine, "new/F", session: session)
            let waiter = Task { try await claim(engine, "new/F", session: session) }
            try waitUntil("one waits") {
                engine.coordinator.coordination.act { state, _ in state.table.claims.count } == 2
            }
            try link(tree, "new", "real")
            let places = engine.coordinator.coordination.act { state, _ in
                state.table.presenters.values.map { $0.node?.path.description }
            }
            #expect(places == ["real/F"])
            try engine.releaseClaim(holder)
            let late = try await waiter.value
            #expect(paths(engine, late) == ["real/F"])
            engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `a directory with a claimed file changes places with nothing before the claim ends`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            for name in ["d", "other"] {
                try tree.makeDirectory(name)
                try tree.write("\(name)/F", text(name))
            }
            try link(tree, "T", "other")
            let session = try stranger(engine)
            let claim = try await claim(engine, "d/F", session: session)
            for name in ["T", "other"] {
                // RENAME_EXCHANGE
                let uses: [PlainUse] = [
                    .rename(.root, text(name), to: .root, text("d"), flags: 2),
                    .rename(.root, text("d"), to: .root, text(name), flags: 2),
                ]
                for use in uses { #expect(try waits(engine, use), "\(use)") }
            }
            try engine.releaseClaim(claim)
            #expect(engine.isUncoordinated)
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `who claims a name has what is there after two items changed places`(_ isFirst: Bool) async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            for name in ["a", "b"] {
                try tree.write(name, text(name))
                try tree.makeDirectory("d\(name)")
                try tree.write("d\(name)/F", text(name))
            }
            let session = try stranger(engine)
            let claims = [
                try await claim(engine, "a", session: session), try await claim(engine, "da/F", session: session),
            ]
            for (one, other) in [("a", "b"), ("da", "db")] {
                if isFirst { try tree.exchange(one, other) } else { try tree.exchange(other, one) }
            }
            #expect(claims.map { paths(engine, $0) } == [["a"], ["da/F"]])
            for name in ["a", "da/F"] {
                #expect(try waits(engine, .open(try tree.resolve(name), flags: O_RDONLY)), "\(name)")
            }
            for name in ["b", "db/F"] {
                #expect(try !waits(engine, .open(try tree.resolve(name), flags: O_RDONLY)), "\(name)")
            }
            engine.endSession(session)
            await account.stop()
        }
    }
}
