internal import Glibc

// cove-keeper [--ready] EXECUTABLE WORD...
exit(Keeper.main(Array(CommandLine.arguments.dropFirst())))
