from exactformer.cli import main

main()
