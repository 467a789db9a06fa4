import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Random apps, documents, references, renames and revocations beside a model of who may read what.
    struct AccessModelTests {
        /// What the account is to be.
        private struct Model {
            struct Document {
                /// Nil for one of the root.
                var owner: String?
                var path: String
                var text: String
            }

            let apps = ["a", "b", "c"]
            var documents: [Int: Document] = [:]
            /// Who was given which document, and where that app has it.
            var references: [String: [Int: String]] = [:]
            var hidden: Set<String> = []
            /// What people call each app's container.
            var names: [String: String] = [:]
            var next = 0

            /// All that an app can read.
            func readable(by app: String) -> Set<String> {
                Set(
                    documents.filter { number, document in
                        document.owner == nil || document.owner == app || references[app]?[number] != nil
                    }.map(\.value.text)
                )
            }

            func isOffered(_ document: Document, to app: String) -> Bool {
                document.owner != app && (document.owner.map { !hidden.contains($0) } ?? true)
            }

            /// A folder of an app, or of nobody.
            func folder(_ owner: String?) -> String { owner.map { "\(names[$0] ?? $0)/Documents" } ?? "Shared" }
        }

        /// Reads all that a program can come by: what it finds, and every path that there is, by several ways.
        private func reads(_ app: String, _ model: Model, _ account: MountedAccount) throws -> Set<String> {
            let paths = model.documents.values.map(\.path)
            let script = """
                find "$COVE_SHARED" "$COVE_CONTAINER" -type f -exec cat {} + 2>/dev/null
                cd "$COVE_CONTAINER"
                while read -r p; do
                    cat "$COVE_SHARED/$p" "../$p" "/proc/self/root$COVE_SHARED/$p" "/proc/1/root$COVE_SHARED/$p"
                    ln -sfn "$COVE_SHARED/$p" link && cat link
                    ln "$COVE_SHARED/$p" hard && cat hard
                    rm -f link hard
                done 2>/dev/null <<'END'
                \(paths.joined(separator: "\n"))
                END
                python3 "$COVE_SHARED/ask.py" 2>/dev/null
                true
                """
            let said = try account.asApp(app, script)
            return Set(said.matches(of: /text-\d+-/).map { String($0.output) })
        }

        /// What a program can ask of the sockets: the versions of every document, and bookmarks of them.
        private static let asking = """
            import json, os, socket, sys
            shared = os.environ['COVE_SHARED']
            for name in ('user.cove.socket', 'user.cove.coordination-socket'):
                try:
                    s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(os.getxattr(shared, name))
                    for method in ('io.cove.Query.Run', 'io.cove.Item.List', 'io.cove.Access.Grants'):
                        s.send(json.dumps({'method': method, 'parameters': {'predicate': 'TRUEPREDICATE', 'path': ''}}).encode() + b'\\0')
                        print(s.recv(65536))
                except OSError: pass
            """

        private func check(_ model: Model, _ account: MountedAccount, _ step: String) throws {
            for app in model.apps {
                let found = try reads(app, model, account)
                let wanted = model.readable(by: app)
                guard found != wanted else { continue }
                let refs = try account.shell("$COVE refs ls; $COVE grants ls; ls -liR */Documents Shared")
                throw CommandFailure(
                    "after \(step), \(app) reads \(found.subtracting(wanted).sorted()) too, and not "
                        + "\(wanted.subtracting(found).sorted())\n\(refs)"
                )
            }
        }

        @Test func `every app can read exactly what the model says, after each step and on a second device`()
            async throws
        {
            let seed =
                ProcessInfo.processInfo.environment["COVE_MODEL_SEED"].flatMap { UInt64($0) }
                ?? .random(in: 0...0xFFFF_FFFF)
            let steps = ProcessInfo.processInfo.environment["COVE_MODEL_STEPS"].flatMap { Int($0) } ?? 40
            print("access model: seed \(seed), \(steps) steps")
            try await mounted(options: "settle=50ms") { account in
                var generator = SeededGenerator(seed: seed)
                var model = Model()
                for app in model.apps {
                    try account.cove("container create com.\(app).box --app com.\(app).app --name \(app) --public")
                }
                try account.shell("mkdir Shared; cat > ask.py <<'END'\n\(Self.asking)\nEND")
                for step in 0..<steps {
                    let done = try perform(&model, account, &generator)
                    if step % 2 == 1 || step == steps - 1 {
                        try check(model, account, "step \(step), \(done), seed \(seed)")
                    }
                }
                try account.settle()
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                try second.shell("ls -R . > /dev/null")
                for app in model.apps {
                    do {
                        try waitUntil("\(app) can read the same on the second device", deadline: 60) {
                            try second.settle()
                            return try reads(app, model, second) == model.readable(by: app)
                        }
                    } catch {
                        let first = try account.shell("$COVE refs ls; ls -liR . ")
                        print("on the first device:\n\(first)")
                        try check(model, second, "\(error), seed \(seed)")
                    }
                }
                try second.end()
            }
        }

        /// One step; what it was.
        private func perform(
            _ model: inout Model,
            _ account: MountedAccount,
            _ generator: inout SeededGenerator
        ) throws -> String {
            let number = model.documents.keys.sorted().randomElement(using: &generator)
            let app = model.apps.randomElement(using: &generator) ?? "a"
            let choice = Int.random(in: 0..<14, using: &generator)
            if number == nil || choice < 3 { return try make(&model, account, &generator) }
            guard let number, var document = model.documents[number] else { return "nothing" }
            model.next += 1
            let fresh = "f\(model.next)"
            switch choice {
            case 3...5:
                guard model.isOffered(document, to: app) else {
                    #expect(throws: (any Error).self) { try account.pick(document.path, for: app) }
                    return "\(app) was not given \(document.path)"
                }
                let reference = try account.pick(document.path, for: app)
                if let known = model.references[app]?[number] { #expect(reference == known) }
                model.references[app, default: [:]][number] = reference
                return "\(app) was given \(document.path)"
            case 6:
                let folder = model.folder(document.owner)
                try account.shell("mv '\(document.path)' '\(folder)/\(fresh)'")
                document.path = "\(folder)/\(fresh)"
                model.documents[number] = document
                return "\(fresh) was renamed"
            case 7:
                document.text = "text-\(model.next)-"
                try account.shell(
                    "echo \(document.text) > '\(model.folder(document.owner))/.t'; mv '\(model.folder(document.owner))/.t' '\(document.path)'"
                )
                model.documents[number] = document
                return "\(document.path) was saved"
            case 8:
                guard let path = model.references[app]?[number] else { return "nothing" }
                document.text = "text-\(model.next)-"
                _ = try account.asApp(
                    app,
                    "echo \(document.text) > Documents/.n; mv Documents/.n \"$COVE_SHARED/\(path)\""
                )
                model.documents[number] = document
                return "\(app) saved \(document.path)"
            case 9:
                guard let path = model.references[app]?[number] else { return "nothing" }
                let moved = "\(model.folder(app))/\(fresh)"
                try account.shell("mv '\(path)' '\(moved)'")
                model.references[app]?[number] = moved
                return "the reference \(path) is \(moved)"
            case 10:
                guard let path = model.references[app]?[number] else { return "nothing" }
                if Bool.random(using: &generator) {
                    try account.shell("rm '\(path)'")
                } else {
                    let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                    let grant = try #require(
                        grants.first { $0.app == "com.\(app).app" && $0.reference == path },
                        "\(grants)"
                    )
                    try account.cove("grants revoke \(grant.id)")
                }
                model.references[app]?[number] = nil
                return "\(path) was taken back"
            case 11:
                // Whoever has a reference keeps it.
                let isHidden = model.hidden.contains(app)
                try account.cove("container \(isHidden ? "publish" : "hide") com.\(app).box")
                if isHidden { model.hidden.remove(app) } else { model.hidden.insert(app) }
                return "\(app) is \(isHidden ? "shown" : "hidden")"
            case 12:
                let old = model.names[app] ?? app
                try account.shell("mv '\(old)' '\(app)-\(fresh)'")
                model.names[app] = "\(app)-\(fresh)"
                func moved(_ path: String) -> String {
                    path.hasPrefix(old + "/") ? "\(app)-\(fresh)" + path.dropFirst(old.count) : path
                }
                model.documents = model.documents.mapValues { document in
                    var renamed = document
                    renamed.path = moved(document.path)
                    return renamed
                }
                model.references[app] = model.references[app]?.mapValues(moved)
                return "\(old) is \(app)-\(fresh)"
            default:
                try account.killDaemon()
                return "the daemon was killed"
            }
        }

        private func make(
            _ model: inout Model,
            _ account: MountedAccount,
            _ generator: inout SeededGenerator
        ) throws -> String {
            model.next += 1
            let owner =
                Int.random(in: 0..<4, using: &generator) == 0 ? nil : model.apps.randomElement(using: &generator)
            let text = "text-\(model.next)-"
            let path = "\(model.folder(owner))/d\(model.next)"
            try account.shell("echo \(text) > '\(path)'")
            model.documents[model.next] = Model.Document(owner: owner, path: path, text: text)
            return "\(path) was made"
        }
    }
}
