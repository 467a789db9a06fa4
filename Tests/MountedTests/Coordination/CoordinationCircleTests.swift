import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Claims that are asked for inside others, and wait for each other.
    struct CoordinationCircleTests {
        /// How a program asks for one claim inside another.
        private enum Nesting: String, CaseIterable {
            /// Two coordinators of one session.
            case session
            /// A connection that has no session.
            case connection
            /// Two connections of one session.
            case connections
            /// Two sessions of one process.
            case sessions
            /// A command below a program that claims at the socket.
            case command
            /// A command below another one, with a shell between them.
            case commands

            private static let wanting = "[os.environ['COVE'], 'coordinate', '--writing', OTHER, '--', 'true']"

            private var script: String {
                switch self {
                case .session:
                    """
                    one = Session(socket_path)
                    one.claim(("writing", OWN), coordinator="a")
                    meet()
                    tell(lambda: one.claim(("writing", OTHER), coordinator="b"))
                    """
                case .connection:
                    """
                    one = Connection(socket_path)
                    def claim(path):
                        one.call("Claim", intents=[{"kind": "writing", "path": path, "options": []}])
                    claim(OWN)
                    meet()
                    tell(lambda: claim(OTHER))
                    """
                case .connections:
                    """
                    one = Session(socket_path)
                    outer = one.claim(("writing", OWN), coordinator="a")
                    meet()
                    one.calls = Connection(socket_path)
                    tell(lambda: one.claim(("writing", OTHER), coordinator="b", within=[outer]))
                    """
                case .sessions:
                    """
                    one, two = Session(socket_path), Session(socket_path)
                    outer = one.claim(("writing", OWN))
                    meet()
                    tell(lambda: two.claim(("writing", OTHER), within=[outer]))
                    """
                case .command:
                    """
                    one = Session(socket_path)
                    one.claim(("writing", OWN))
                    meet()
                    run(\(Self.wanting))
                    """
                case .commands:
                    """
                    meet()
                    run(\(Self.wanting))
                    """
                }
            }

            /// Starts a program that holds one file, waits until another one holds the other file, and wants that.
            func start(own: String, other: String, _ account: MountedAccount) throws -> Command {
                let text = """
                    from client import *
                    import subprocess
                    OWN, OTHER = "\(own)", "\(other)"
                    def meet():
                        done(OWN)
                        until(OTHER)
                    def tell(ask):
                        try:
                            ask()
                            print("both")
                        except Failed as failed:
                            print("circle" if failed.args[0] == 35 else failed)
                    def run(command):
                        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True)
                        print("both" if ended.returncode == 0 else "circle" if "waits for it" in ended.stderr else ended)
                    \(script)
                    """
                let name = "\(own).py"
                try text.write(toFile: account.scratch.appending(name), atomically: false, encoding: .utf8)
                let program = "python3 $tmp/\(name)"
                guard self == .commands else { return try account.start("exec \(program)") }
                return try account.start("$COVE coordinate --writing \(own) -- sh -c '\(program); true'")
            }
        }

        @Test func `42. of claims in a circle one fails, whichever programs they are of`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                let all = Nesting.allCases
                for (index, one) in all.enumerated() {
                    for (place, two) in all.enumerated().dropFirst(index) where place - index < 2 || place - index == 3
                    {
                        let (first, second) = ("\(one)-\(two)-a", "\(one)-\(two)-b")
                        try account.shell("touch \(first) \(second)")
                        let programs = [
                            try one.start(own: first, other: second, account),
                            try two.start(own: second, other: first, account),
                        ]
                        let outputs = try programs.map { try $0.wait(deadline: 60).output }
                        #expect(outputs.sorted() == ["both\n", "circle\n"], "\(one) \(two): \(outputs)")
                    }
                }
            }
        }

        @Test func `42. who does not say that its claims nest waits for its own until its time is over`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("touch F")
                let output = try account.python(
                    """
                    one = Session(socket_path)
                    outer = one.claim(("writing", "F"), coordinator="a")
                    one.calls = Connection(socket_path)
                    for more in [{"timeout": 0.5}, {"within": [outer]}]:
                        try:
                            one.claim(("writing", "F"), coordinator="b", **more)
                        except Failed as failed:
                            print(failed.args[0])
                    # Another thread of the program may end the claim.
                    threading.Timer(0.2, lambda: one.replies.call("Release", claim=outer)).start()
                    one.claim(("writing", "F"), coordinator="b", timeout=30)
                    print("granted")
                    """
                )
                #expect(output == "110\n35\ngranted\n")
            }
        }
    }
}
