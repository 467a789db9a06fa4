import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Random apps, documents, references, renames and revocations beside a model of who may read what.
    struct AccessModelTests {
        /// Reads all that a program can come by: what it finds, and every path that there is, by several ways.
        private func reads(
            _ app: String,
            _ model: AccessModel,
            _ account: MountedAccount
        ) throws -> (texts: Set<String>, answers: AccessAnswers) {
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
                PATHS='\(paths.joined(separator: "\n"))' OTHER=com.\(app == "a" ? "b" : "a").app python3 "$COVE_SHARED/ask.py"
                """
            let said = try account.asApp(app, script)
            // Nothing that it may not ask is answered, and all that it may is.
            let told = said.split(separator: "\n").filter { $0.hasPrefix("told ") }
            let heard = try #require(said.split(separator: "\n").last { $0.hasPrefix("heard {") }, "\(said)")
            #expect(told.isEmpty && said.contains("\nrefused\n"), "\(app): \(told.isEmpty ? said : told.joined())")
            return (
                Set(said.matches(of: /text-\d+-/).map { String($0.output) }),
                try JSONDecoder().decode(AccessAnswers.self, from: Data(heard.dropFirst("heard ".count).utf8))
            )
        }

        private func check(
            _ model: AccessModel,
            _ account: MountedAccount,
            _ step: String,
            onNewDevice isNew: Bool = false
        ) throws {
            for app in model.apps {
                let (found, heard) = try reads(app, model, account)
                let wanted = model.readable(by: app, onNewDevice: isNew)
                let answers = model.answers(to: app, onNewDevice: isNew)
                if found == wanted, heard == answers { continue }
                let refs = try account.shell("$COVE refs ls; $COVE grants ls; ls -liR */Documents Shared")
                throw CommandFailure(
                    "after \(step), \(app) reads \(found.subtracting(wanted).sorted()) too, and not "
                        + "\(wanted.subtracting(found).sorted()); it hears \(heard), not \(answers)\n\(refs)"
                )
            }
        }

        /// What is open stays so, and is of no use to open again what an app may not use any more.
        private func check(
            _ model: AccessModel,
            _ programs: [String: AppHandles],
            _ step: String
        ) throws {
            for (number, handle) in model.handles.sorted(by: { $0.key < $1.key }) {
                guard let program = programs[handle.app] else { continue }
                let read = try program.read(number)
                #expect(read == handle.text, "after \(step), \(handle.app) reads by \(number)")
                guard let isOpened = model.mayReopen(handle) else { continue }
                let again = try program.readAnew(number)
                #expect(
                    isOpened ? again == handle.text : again.hasPrefix("refused"),
                    "after \(step), \(handle.app) opens \(number) again, \(isOpened): \(again)"
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
                var model = AccessModel()
                for app in model.apps {
                    try account.cove("container create com.\(app).box --app com.\(app).app --name \(app) --public")
                }
                try account.shell("mkdir Shared; cat > ask.py <<'END'\n\(AccessAnswers.asking)\nEND\n: > tokens")
                var programs: [String: AppHandles] = [:]
                for app in model.apps { programs[app] = try AppHandles(account, app) }
                for step in 0..<steps {
                    let done = try model.perform(account, programs, &generator)
                    let tokens = model.tokens.values.flatMap(\.keys).sorted()
                    try account.shell("printf '\(tokens.joined(separator: "\\n"))' > tokens")
                    let place = "step \(step), \(done), seed \(seed)"
                    try check(model, account, place)
                    try check(model, programs, place)
                }
                for program in programs.values { try program.end() }
                try account.settle()
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                try second.shell("ls -R . > /dev/null")
                for app in model.apps {
                    do {
                        try waitUntil("\(app) can read the same on the second device", deadline: 60) {
                            try second.settle()
                            let (found, heard) = try reads(app, model, second)
                            return found == model.readable(by: app, onNewDevice: true)
                                && heard == model.answers(to: app, onNewDevice: true)
                        }
                    } catch {
                        let first = try account.shell("$COVE refs ls; ls -liR . ")
                        print("on the first device:\n\(first)")
                        try check(model, second, "\(error), seed \(seed)", onNewDevice: true)
                    }
                }
                try second.end()
            }
        }
    }
}
