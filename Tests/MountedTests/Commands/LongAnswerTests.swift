import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Lists whose texts are longer than a message of the control socket.
    struct LongAnswerTests {
        @Test func `a trash of long paths is listed in parts`() async throws {
            try await mounted { account in
                let listed = try account.shell(
                    """
                    part=$(printf '%0240d' 0)
                    folder=$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part/$part
                    mkdir -p "$folder"
                    for i in $(seq 400); do : > "$folder/$i"; done
                    $COVE sync --wait
                    rm -r "$part"
                    $COVE sync --wait --accept-local-deletions
                    $COVE trash ls | wc -l
                    $COVE trash ls --json | grep -o documentID | wc -l
                    """,
                    deadline: 120
                )
                #expect(listed == "400\n400\n")
            }
        }
    }
}
