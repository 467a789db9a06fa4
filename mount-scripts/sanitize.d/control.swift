// What a sanitizer must say nothing of, and what it must report: without that a silent run of the tests means nothing.
import Dispatch
import Glibc
import Synchronization

final class Counters: Sendable {
    let locked = Mutex(0)
    nonisolated(unsafe) var open = 0
}

let counters = Counters()

func countLocked(_: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    for _ in 0..<100_000 { counters.locked.withLock { $0 += 1 } }
    return nil
}

func countOpenly(_: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    for _ in 0..<100_000 { counters.open += 1 }
    return nil
}

/// Runs a function in two threads at once.
func twice(_ body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?) {
    var threads = [pthread_t(), pthread_t()]
    for index in threads.indices { precondition(pthread_create(&threads[index], nil, body, nil) == 0) }
    for thread in threads { pthread_join(thread, nil) }
}

/// Counts here and in another thread, by turns, and is resumed before it waits.
nonisolated func countInTurn() async {
    for _ in 0..<100 {
        let own = Counters()
        own.open = 1
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                own.open += 1
                continuation.resume()
            }
            usleep(1000)
        }
        own.open += 1
        precondition(own.open == 3)
    }
}

@main enum Control {
    static func main() async {
        switch CommandLine.arguments.last {
        case "right":
            twice(countLocked)
            precondition(counters.locked.withLock { $0 } == 200_000)
            await countInTurn()
        case "race": twice(countOpenly)
        case "freed":
            let memory = UnsafeMutablePointer<Int>.allocate(capacity: 16)
            memory.initialize(repeating: 7, count: 16)
            memory.deallocate()
            print(memory[3])
        default: exit(2)
        }
    }
}
